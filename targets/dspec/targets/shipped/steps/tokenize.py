"""tokenize: text → token ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..step import MANY, TENSOR, TEXT, RequestError, Value, accept

ATTRIBUTES = {"ids": "ids", "mask": "attention_mask", "types": "type_ids"}
PAD_TOKENS = ("[PAD]", "<pad>", "<|padding|>")


@dataclass(frozen=True, kw_only=True)
class Tokenize:
    """Turn a text, or a pair of texts, into token ids.

    Gives one int64 array of length tokens per name in `outputs`, in that order. Truncation and
    padding set in the tokenizer's own file do not count; what stands here does.

    Attributes:
        tokenizer: a `tokenizer.json` of the tokenizers library.
        max_length: tokens at most, special tokens included.
        padding: `longest`: no longer than the longest text of a batch (a single request is not
            padded); `max_length`: always `max_length` tokens; `none`: never padded.
        truncation: which end of a text that is too long is cut off, or `error` to refuse it.
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
    truncation: Literal["right", "left", "error"] = "right"
    pad_id: int | None = None
    pad_side: Literal["right", "left"] | None = None
    add_special_tokens: bool = True
    outputs: tuple[Literal["ids", "mask", "types"], ...] = ("ids", "mask")

    def flow(self, *texts: Value) -> tuple[Value, ...]:
        if len(texts) not in (1, 2):
            raise ValueError(f"takes one text or a pair, not {len(texts)} values")
        for text in texts:
            accept(text, TEXT)
        if self.max_length < 1:
            raise ValueError(f"max_length is {self.max_length}; at least 1")
        if not self.outputs or len(set(self.outputs)) < len(self.outputs):
            raise ValueError("outputs names each of ids, mask, types at most once, and one at least")
        length = self.max_length if self.padding == "max_length" else None
        return tuple(Value(TENSOR, "int64", (length,)) for _ in self.outputs)

    def open(self) -> Callable[..., Any]:
        import numpy as np

        tokenizer = self._tokenizer()
        names = [ATTRIBUTES[name] for name in self.outputs]

        def tokenize(text: str, pair: str | None = None) -> Any:
            found = tokenizer.encode(text, pair, add_special_tokens=self.add_special_tokens)
            if len(found.ids) > self.max_length:
                raise RequestError("", f"a text of {len(found.ids)} tokens", f"at most {self.max_length}")
            arrays = tuple(np.array(getattr(found, name), np.int64) for name in names)
            return arrays if len(arrays) > 1 else arrays[0]

        return tokenize

    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(self.tokenizer)
        declared = tokenizer.padding or {}
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if self.truncation != "error":
            tokenizer.enable_truncation(self.max_length, direction=self.truncation)
        if self.padding == "max_length":
            pad_id = self._pad_id(tokenizer, declared)
            tokenizer.enable_padding(
                direction=self.pad_side or declared.get("direction", "right"),
                pad_id=pad_id,
                pad_type_id=declared.get("pad_type_id", 0),
                pad_token=tokenizer.id_to_token(pad_id) or "[PAD]",
                length=self.max_length,
            )
        return tokenizer

    def _pad_id(self, tokenizer: Any, declared: dict[str, Any]) -> int:
        named = [tokenizer.token_to_id(token) for token in PAD_TOKENS]
        found = [number for number in (self.pad_id, declared.get("pad_id"), *named) if number is not None]
        if not found:
            raise ValueError("the tokenizer's file names no padding token: give pad_id")
        return int(found[0])


STEP = Tokenize
