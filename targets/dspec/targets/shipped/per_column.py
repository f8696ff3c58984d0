"""Parameters that are one number for all columns, or one per column of the last axis."""

from __future__ import annotations

from .step import Value


def several(numbers: float | tuple[float, ...]) -> tuple[float, ...]:
    """One number or several, as a tuple."""
    return (float(numbers),) if isinstance(numbers, (int, float)) else tuple(numbers)


def check_per_column(value: Value, **parameters: float | tuple[float, ...] | None) -> None:
    """ValueError where a parameter with a number per column has more or fewer than there are columns, or than another."""
    counts = {name: len(numbers) for name, numbers in parameters.items() if isinstance(numbers, (tuple, list))}
    if len(set(counts.values())) > 1:
        raise ValueError(" and ".join(f"{name} has {count} numbers" for name, count in counts.items()))
    if value.shape is None or not counts:
        return
    columns = value.shape[-1] if value.shape else 0
    name, count = next(iter(counts.items()))
    if isinstance(columns, int) and columns != count:
        raise ValueError(f"{name} has {count} numbers for {columns or 'no'} columns")
