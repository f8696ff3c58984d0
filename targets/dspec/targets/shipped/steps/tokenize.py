"""tokenize: text → token ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from ..step import MANY, TENSOR, TEXT, RequestError, Value, accept

RANGES = {"mask": (0.0, 1.0), "types": (0.0, 1.0)}
ATTRIBUTES = {"ids": "ids", "mask": "attention_mask", "types": "type_ids"}
MOST_TOKENS = 1_000_000  # a longer limit is none: transformers writes 1e30 where it knows no length
PAD_TOKENS = ("[PAD]", "<pad>", "<|padding|>")


@dataclass(frozen=True, kw_only=True)
class Tokenize:
    """Turn a text, or a pair of texts, into token ids.

    Gives one int64 array of length tokens per name in `outputs`, in that order. Truncation and
    padding set in the tokenizer's own file do not count; what stands here does.

    Attributes:
        tokenizer: a `tokenizer.json` of the tokenizers library.
        max_length: tokens at most, special tokens included; no more than the model has positions
            for, which may be fewer than its table has rows.
        padding: `longest`: no longer than the longest text of a batch (a single request is not
            padded); `max_length`: always `max_length` tokens; `none`: never padded.
        multiple_of: with padding `longest`: the length is padded up to a multiple of this.
        truncation: which end of a text that is too long is cut off, or `error` to refuse it.
        pair_truncation: what of a pair that is too long is cut: `longest_first` (token by token,
            from the longer text), `only_first` or `only_second` (the other stays whole; a pair in
            which it leaves no room is refused).
        pad_id: the padding token's id; absent: from the tokenizer's file.
        pad_side: where padding goes; absent: from the tokenizer's file, else right.
        add_special_tokens: whether the tokenizer's template ([CLS] … [SEP]) is applied.
        outputs: which arrays: token `ids`, attention `mask`, segment `types`.
    """

    takes: ClassVar[int] = MANY
    gives: ClassVar[int] = MANY
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("tokenizers", "numpy")
    tokenizer: str = field(metadata={"asset": True})
    max_length: int
    padding: Literal["longest", "max_length", "none"] = "longest"
    multiple_of: int = 1
    truncation: Literal["right", "left", "error"] = "right"
    pair_truncation: Literal["longest_first", "only_first", "only_second"] = "longest_first"
    pad_id: int | None = None
    pad_side: Literal["right", "left"] | None = None
    add_special_tokens: bool = True
    outputs: tuple[Literal["ids", "mask", "types"], ...] = ("ids", "mask")

    def flow(self, *texts: Value) -> tuple[Value, ...]:
        if len(texts) not in (1, 2):
            raise ValueError(f"takes one text or a pair, not {len(texts)} values")
        for text in texts:
            accept(text, TEXT)
        if not 1 <= self.max_length <= MOST_TOKENS:
            raise ValueError(
                f"max_length is {self.max_length}; from 1 to {MOST_TOKENS}: the positions that the model has"
            )
        if len(texts) == 1 and self.pair_truncation != "longest_first":
            raise ValueError(f"pair_truncation is {self.pair_truncation}, and there is one text")
        self._check_multiple()
        if not self.outputs or len(set(self.outputs)) < len(self.outputs):
            raise ValueError("outputs names each of ids, mask, types at most once, and one at least")
        length = self.max_length if self.padding == "max_length" else None
        return tuple(Value(TENSOR, "int64", (length,), RANGES.get(name)) for name in self.outputs)

    def _check_multiple(self) -> None:
        if self.multiple_of < 1 or self.max_length % self.multiple_of:
            raise ValueError(f"max_length {self.max_length} is no multiple of multiple_of {self.multiple_of}")
        if self.multiple_of > 1 and self.padding != "longest":
            raise ValueError("multiple_of is for padding: longest")

    def open(self) -> Callable[..., Any]:
        import numpy as np
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(self.tokenizer)
        pads = self._pads(tokenizer)
        names = [ATTRIBUTES[name] for name in self.outputs]
        special = tokenizer.num_special_tokens_to_add(False) if self.add_special_tokens else 0
        if special >= self.max_length:
            raise ValueError(f"max_length {self.max_length} leaves no room beside {special} special tokens")
        # Truncation of the library's own keeps all that it cuts off, of a pair in every combination: two texts of
        # 100 kB would take gigabytes.
        tokenizer.no_truncation()
        tokenizer.no_padding()

        def tokenize(text: str, pair: str | None = None) -> Any:
            try:
                # "fast" leaves out the offsets into the text, which nobody here asks for.
                texts = text if pair is None else (text, pair)
                [found] = tokenizer.encode_batch_fast([texts], add_special_tokens=self.add_special_tokens)
            except TypeError as error:  # what the library makes of half a surrogate pair
                raise self._refusal(text, pair, error) from error
            arrays = tuple(np.array(getattr(found, name), np.int64) for name in names)
            if arrays[0].size > self.max_length:
                kept = self._kept(found, pair is not None)
                arrays = tuple(array[kept] for array in arrays)
            if pads:
                arrays = tuple(self._padded(*padding) for padding in zip(arrays, pads, strict=True))
            return arrays if len(arrays) > 1 else arrays[0]

        return tokenize

    def fills(self) -> list[tuple[int, str]]:
        """For each array what fills it up where texts of different lengths are stacked, and on which side.

        Raises ValueError where the tokenizer has no padding token.
        """
        from tokenizers import Tokenizer

        return replace(self, padding="max_length", multiple_of=1)._pads(Tokenizer.from_file(self.tokenizer))

    def _padded(self, array: Any, padding: tuple[int, str]) -> Any:
        import numpy as np

        fill, side = padding
        length = (
            self.max_length if self.padding == "max_length" else -(-array.size // self.multiple_of) * self.multiple_of
        )
        padded = np.full(length, fill, np.int64)
        padded[slice(array.size) if side == "right" else slice(length - array.size, None)] = array
        return padded

    def _kept(self, found: Any, pair: bool) -> Any:
        """Indices of the tokens that stay: the special ones, and of each text as many as there is room for."""
        import numpy as np

        if self.truncation == "error":
            raise RequestError("", f"a text of {len(found.ids)} tokens", f"at most {self.max_length}")
        special = np.array(found.special_tokens_mask, bool)
        if pair:
            owners = np.array([-1 if owner is None else owner for owner in found.sequence_ids])
            texts = [np.flatnonzero(owners == number) for number in range(2)]
        else:
            texts = [np.flatnonzero(~special)]
        room = self.max_length - int(special.sum())
        if room < 1:
            raise ValueError(f"max_length {self.max_length} leaves no room beside the special tokens")
        counts = self._counts([text.size for text in texts], room)
        cut = [
            text[:n] if self.truncation == "right" else text[text.size - n :]
            for text, n in zip(texts, counts, strict=True)
        ]
        return np.sort(np.concatenate([np.flatnonzero(special), *cut]))

    def _counts(self, sizes: list[int], room: int) -> list[int]:
        """How many tokens of each text stay, together `room`."""
        if len(sizes) == 1:
            return [room]
        if self.pair_truncation == "longest_first":
            shorter, odd = min(*sizes, room // 2), sizes[0] > sizes[1]
            return [room - shorter, shorter] if odd else [shorter, room - shorter]
        whole = sizes[self.pair_truncation == "only_first"]
        if whole >= room:
            which = "second" if self.pair_truncation == "only_first" else "first"
            raise RequestError("", f"a pair whose {which} text leaves no room", f"at most {self.max_length} tokens")
        return [room - whole, whole] if self.pair_truncation == "only_first" else [whole, room - whole]

    def _refusal(self, text: str, pair: str | None, error: Exception) -> Exception:
        try:
            f"{text}{pair}".encode()
        except UnicodeEncodeError:
            return RequestError("", "half of a surrogate pair", "Unicode text")
        return error

    def _pads(self, tokenizer: Any) -> list[tuple[int, str]]:
        """For each array what stands for padding, and on which side; [] where nothing is padded."""
        if self.padding != "max_length" and self.multiple_of == 1:
            return []
        declared = tokenizer.padding or {}
        fills = {"ids": self._pad_id(tokenizer, declared), "mask": 0, "types": declared.get("pad_type_id", 0)}
        side = self.pad_side or declared.get("direction", "right")
        return [(int(fills[name]), side) for name in self.outputs]

    def _pad_id(self, tokenizer: Any, declared: dict[str, Any]) -> int:
        named = [tokenizer.token_to_id(token) for token in PAD_TOKENS]
        found = [number for number in (self.pad_id, declared.get("pad_id"), *named) if number is not None]
        if not found:
            raise ValueError("the tokenizer's file names no padding token: give pad_id")
        return int(found[0])


STEP = Tokenize
