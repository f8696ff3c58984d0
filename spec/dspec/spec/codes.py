"""What every error code means: the entries of `codes/*.toml`."""

from __future__ import annotations

import textwrap
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dspec.spec.errors import SpecError
from dspec.spec.nearest import did_you_mean

FOLDER = Path(__file__).parent / "codes"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    title: str
    why: str
    fix: str


@cache
def entries() -> dict[str, Entry]:
    """Code → entry, sorted."""
    found: dict[str, Entry] = {}
    for file in sorted(FOLDER.glob("*.toml")):
        for code, values in tomllib.loads(file.read_text("utf-8")).items():
            found[code] = Entry(**values)
    return dict(sorted(found.items()))


def titles() -> dict[str, str]:
    """Code → title, sorted."""
    return {code: entry.title for code, entry in entries().items()}


def explain(code: str) -> str:
    """A code's title, why it appears and what to do, for a terminal. Raises SpecError for an unknown code."""
    wanted = code.strip().upper()
    entry = entries().get(wanted)
    if entry is None:
        raise SpecError.of("E0342", f"unknown code `{code}`", expected="a code such as E0104",
                           hint=did_you_mean(wanted, entries(), "codes stand in front of every message"))  # fmt: skip
    why, fix = textwrap.fill(entry.why, 88), textwrap.fill(entry.fix, 88)
    return f"{wanted}: {entry.title}\n\n{why}\n\nWhat to do: {fix}"
