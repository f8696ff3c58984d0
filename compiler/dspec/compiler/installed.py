"""Which installed distributions top-level modules come from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions


@cache
def owners_of_modules() -> Mapping[str, list[str]]:
    """Top-level module → distributions that bring it. Read once per process: it lists the files of every distribution."""
    return packages_distributions()
