"""lookup: words or characters → their ids in a vocabulary file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from ..cells import shortened, words
from ..step import JSON, TENSOR, TEXT, RequestError, Value, accept

MOST = 1_000_000  # entries of a sequence


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """Look up each entry of a text in a vocabulary; gives int64 ids.

    Gives a row of ids, or with `split: none` a single id (no axes). With `split: none` and a JSON list of texts, a row
    with an id for each. What is looked up is the text as it comes: see `normalize_text`.

    Attributes:
        vocabulary: a text file with one entry per line, whose id is its line counted from 0; or a `.json` file: an
            object of entry → id, or a list of entries.
        split: `whitespace`: words; `characters`: Unicode code points; `none`: the whole text is one entry.
        unknown: `error` to refuse what the vocabulary lacks, or the id that stands for it.
        max_length: ids at most.
        truncation: which end of what is too long is cut off, or `error` to refuse it.
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ("numpy",)
    vocabulary: str = field(metadata={"asset": True})
    split: Literal["whitespace", "characters", "none"] = "whitespace"
    unknown: Literal["error"] | int = "error"
    max_length: int = 512
    truncation: Literal["right", "left", "error"] = "error"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TEXT, JSON)
        if value.kind == JSON and self.split != "none":
            raise ValueError("a JSON list is split already: split is none")
        if not 1 <= self.max_length <= MOST:
            raise ValueError(f"max_length is {self.max_length}; from 1 to {MOST}")
        if self.unknown != "error" and self.unknown < 0:
            raise ValueError(f"unknown is {self.unknown}; error, or an id from 0 on")
        single = value.kind == TEXT and self.split == "none"
        return (Value(TENSOR, "int64", () if single else (None,)),)

    def open(self) -> Callable[[Any], Any]:
        import numpy as np

        ids = _ids(Path(self.vocabulary))
        fallback = None if self.unknown == "error" else self.unknown

        def lookup(value: Any) -> Any:
            single = self.split == "none" and isinstance(value, str)
            entries = [value] if single else self._entries(value)
            found = [ids.get(entry, fallback) for entry in entries]
            if None in found:
                strange = shortened(repr(entries[found.index(None)]))
                raise RequestError("", f"{strange}, which the vocabulary lacks", "an entry of the vocabulary")
            return np.array(found[0] if single else found, np.int64)

        return lookup

    def _entries(self, value: Any) -> Any:
        if self.split == "characters":
            entries = value
        elif self.split == "whitespace":
            entries = value.split()
        elif isinstance(value, list) and set(map(type, value)) <= {str}:
            entries = value
        else:
            found = next(item for item in value if type(item) is not str) if isinstance(value, list) else value
            raise RequestError("", words(found), "a list of texts")
        if len(entries) <= self.max_length:
            return entries
        if self.truncation == "error":
            raise RequestError("", f"{len(entries)} entries", f"at most {self.max_length}")
        return entries[: self.max_length] if self.truncation == "right" else entries[-self.max_length :]


def _ids(path: Path) -> dict[str, int]:
    """Entry → id; ValueError where the file is no vocabulary."""
    text = path.read_text("utf-8-sig")
    entries: Any = json.loads(text) if path.suffix == ".json" else text.split("\n")
    if isinstance(entries, dict):
        wrong = [entry for entry, number in entries.items() if type(number) is not int or number < 0]
        if wrong:
            raise ValueError(f"{path.name}: the id of {wrong[0]!r} is no whole number from 0 on")
        return entries
    if not isinstance(entries, list) or not set(map(type, entries)) <= {str}:
        raise ValueError(f"{path.name} holds neither a list of texts nor an object of text → id")
    if path.suffix != ".json":
        entries = [line.removesuffix("\r") for line in (entries[:-1] if entries[-1] == "" else entries)]
    ids = {entry: number for number, entry in enumerate(entries)}
    if len(ids) < len(entries):
        twice = next(entry for number, entry in enumerate(entries) if ids[entry] != number)
        raise ValueError(f"{path.name} holds {twice!r} twice")
    return ids


STEP = Lookup
