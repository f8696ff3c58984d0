"""Amounts as Kubernetes writes them."""

from __future__ import annotations

UNITS = (("Gi", 1 << 30), ("G", 10**9), ("Mi", 1 << 20), ("M", 10**6), ("Ki", 1 << 10), ("k", 1000))


def quantity(size: int) -> str:
    """Bytes in the largest unit that is exact: 2147483648 is `2Gi`, 1500000000 is `1500M`, 1000001 is `1000001`.

    Never `m`: to Kubernetes that is a thousandth of a byte, and `400m` of memory a pod that can't start.
    """
    for unit, bytes_ in UNITS:
        if size % bytes_ == 0:
            return f"{size // bytes_}{unit}"
    return str(size)
