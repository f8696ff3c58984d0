"""Which tests run: whole builds that only vary another test's theme wait for `DSPEC_SLOW=1`."""

from __future__ import annotations

import os

import pytest

# Two test processes share two cores: a thread of torch that spins while it waits takes the core that another needs.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("DSPEC_SLOW"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: set DSPEC_SLOW=1"))
