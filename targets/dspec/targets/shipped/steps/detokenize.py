"""detokenize: token ids → text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ..step import TENSOR, TEXT, Value, accept


@dataclass(frozen=True, kw_only=True)
class Detokenize:
    """Turn a row of token ids into a text, as the tokenizer's own decoder does.

    An id that the tokenizer does not know is an error.

    Attributes:
        tokenizer: a `tokenizer.json` of the tokenizers library.
        skip_special_tokens: whether [CLS], [PAD] and their like are left out.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("tokenizers", "numpy")
    tokenizer: str = field(metadata={"asset": True})
    skip_special_tokens: bool = True

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TENSOR)
        if value.dtype is not None and "int" not in value.dtype:
            raise ValueError(f"takes whole numbers, not {value.dtype}")
        if value.shape is not None and len(value.shape) != 1:
            raise ValueError(f"takes one row of ids, not shape {list(value.shape)}")
        return (Value(TEXT),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(self.tokenizer)
        known = np.array(sorted(tokenizer.get_vocab(with_added_tokens=True).values()), np.int64)

        def detokenize(ids: Any) -> str:
            row = np.asarray(ids)
            if row.ndim != 1 or row.dtype.kind not in "iu":
                raise ValueError(f"ids of dtype {row.dtype} and shape {list(row.shape)}; expected a row of integers")
            # The library leaves unknown ids out without a word.
            strange = row[~np.isin(row, known)]
            if strange.size:
                raise ValueError(f"the tokenizer has no token {int(strange[0])}")
            return str(tokenizer.decode(row.tolist(), skip_special_tokens=self.skip_special_tokens))

        return detokenize


STEP = Detokenize
