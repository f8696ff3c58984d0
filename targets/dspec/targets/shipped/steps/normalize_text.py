"""normalize_text: one way to write what can be written in several."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..step import TEXT, RequestError, Value, accept

MOST_MARKS = 30  # UAX #15, section 13: no text that people write has more in a row; sorting them takes their square
PLANES = range(0x300, 0x20000)  # where all combining marks stand


@dataclass(frozen=True, kw_only=True)
class NormalizeText:
    """Normalise a text: Unicode form, then case, then white space.

    The form is applied once more after the case, which may undo it. A text with more than 30 combining marks in a row
    is refused.

    Attributes:
        form: Unicode normalisation form: `nfc`, `nfd`, `nfkc`, `nfkd`, or `none`.
        case: `keep`; `lower`: as `str.lower`; `fold`: as `str.casefold` (ß → ss), for comparison.
        whitespace: `keep`; `strip`: none at both ends; `collapse`: besides, one space for every run of white space
            (as `str.split` understands it, line breaks included).
    """

    takes: ClassVar[int] = 1
    gives: ClassVar[int] = 1
    places: ClassVar[tuple[str, ...]] = ("host",)
    requires: ClassVar[tuple[str, ...]] = ()
    form: Literal["none", "nfc", "nfd", "nfkc", "nfkd"] = "nfc"
    case: Literal["keep", "lower", "fold"] = "keep"
    whitespace: Literal["keep", "strip", "collapse"] = "keep"

    def flow(self, value: Value) -> tuple[Value, ...]:
        accept(value, TEXT)
        if (self.form, self.case, self.whitespace) == ("none", "keep", "keep"):
            raise ValueError("changes nothing: give form, case or whitespace")
        return (Value(TEXT),)

    def open(self) -> Callable[[str], str]:
        marks, too_many = _marks(), _run().search

        def normalize_text(text: str) -> str:
            # Most texts have no mark at all, and a set tells that ten times faster than the search for a run.
            found = None if self.form == "none" or marks.isdisjoint(text) else too_many(text)
            if found:
                words = f"more than {MOST_MARKS} combining marks in a row at character {found.start()}"
                raise RequestError("", words, f"at most {MOST_MARKS}")
            formed = self._formed(text)
            if self.case != "keep":
                formed = self._formed(formed.lower() if self.case == "lower" else formed.casefold())
            if self.whitespace == "collapse":
                return " ".join(formed.split())
            return formed.strip() if self.whitespace == "strip" else formed

        return normalize_text

    def _formed(self, text: str) -> str:
        form: Any = self.form.upper()
        return text if self.form == "none" else unicodedata.normalize(form, text)


@functools.cache
def _marks() -> frozenset[str]:
    return frozenset(chr(code) for code in PLANES if unicodedata.combining(chr(code)))


@functools.cache
def _run() -> re.Pattern[str]:
    """A run of combining marks that is too long."""
    return re.compile(f"[{''.join(sorted(_marks()))}]{{{MOST_MARKS + 1}}}")


STEP = NormalizeText
