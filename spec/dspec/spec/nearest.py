"""The nearest valid name to one that is not valid."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MANY = 256  # choices; comparing a name with each of thousands takes longer than the hint is worth


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The likeliest of `names`, or '' where none is near."""
    choices = sorted(set(names))
    if len(choices) > MANY:
        choices = [choice for choice in choices if choice[:1].lower() == name[:1].lower()][:MANY]
    lowered = {choice.lower().replace("-", "_"): choice for choice in reversed(choices)}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), lowered, n=1, cutoff=cutoff)
    return lowered[found[0]] if found else ""


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """A sentence for a hint: the nearest name, or `otherwise`."""
    found = nearest(name, names)
    return f"did you mean `{found}`?" if found else otherwise


def listed(names: Iterable[str], limit: int = 12) -> str:
    """`a, b or c` for an expectation; long lists are cut."""
    every = list(names)
    if not every:
        return "nothing"
    shown = every[:limit]
    if len(every) > limit:
        return f"{', '.join(shown)} … ({len(every)} in all)"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
