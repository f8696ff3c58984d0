"""Holding an error (as `compare` gives it) to a policy, and what tolerance would have passed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Point = Mapping[str, Any]  # ref, diff, index, and case where frontiers were merged
Policy = Mapping[str, Any]  # atol, rtol, min_cosine, min_topk_agreement {k, share}; None: not asked


class Least(NamedTuple):
    """The least tolerances that pass; infinite where none does.

    `scale`: by which atol and rtol, both, must be multiplied; below 1 there is room. `atol`:
    alone, at the given rtol. `rtol`: alone, at the given atol.
    """

    scale: float
    atol: float
    rtol: float


def broken_by(error: Mapping[str, Any], policy: Policy) -> list[str]:
    """Why the error breaks the policy, in words; empty when it keeps it."""
    if error["broken"]:
        return [str(error["broken"])]
    reasons = (_elements(error, policy), _cosine(error, policy), _topk(error, policy))
    return [reason for reason in reasons if reason]


def worst(frontier: Sequence[Point], atol: float, rtol: float) -> tuple[float, Point | None]:
    """The point that needs the greatest share of what is allowed, and that share.

    Above 1: broken; infinite: nothing is allowed. (0, None) for an empty frontier: no difference.
    """
    shares = [(_share(point, atol, rtol), point) for point in frontier]
    return max(shares, key=lambda pair: pair[0], default=(0.0, None))


def least_scale(frontier: Sequence[Point], atol: float, rtol: float) -> Least:
    """The least tolerances that every point of the frontier keeps."""
    scale = worst(frontier, atol, rtol)[0]
    alone = max((point["diff"] - rtol * point["ref"] for point in frontier), default=0.0)
    beside = max((_slope(point, atol) for point in frontier), default=0.0)
    return Least(
        scale=_raised(scale, lambda s: keeps(frontier, s * atol, s * rtol)),
        atol=_raised(max(alone, 0.0), lambda least: keeps(frontier, least, rtol)),
        rtol=_raised(max(beside, 0.0), lambda least: keeps(frontier, atol, least)),
    )


def keeps(frontier: Iterable[Point], atol: float, rtol: float) -> bool:
    """Whether |got - reference| <= atol + rtol * |reference| for every element."""
    return all(point["diff"] <= _allowed(point, atol, rtol) for point in frontier)


def merge(frontiers: Iterable[Iterable[Point]]) -> list[dict[str, Any]]:
    """The frontier of several: points that no other dominates, by rising ref."""
    points = sorted(
        (dict(point) for frontier in frontiers for point in frontier),
        key=lambda point: (point["ref"], -point["diff"]),
    )
    kept: list[dict[str, Any]] = []
    for point in points:
        if point["diff"] > (kept[-1]["diff"] if kept else 0.0):
            kept.append(point)
    return kept


def _allowed(point: Point, atol: float, rtol: float) -> float:
    # 0 * infinity is no number, and an rtol allows nothing at 0.
    return float(atol + (rtol * point["ref"] if point["ref"] else 0.0))


def _share(point: Point, atol: float, rtol: float) -> float:
    allowed = _allowed(point, atol, rtol)
    if point["diff"] <= 0:
        return 0.0
    return float(point["diff"] / allowed) if allowed else math.inf


def _slope(point: Point, atol: float) -> float:
    over = point["diff"] - atol
    if over <= 0:
        return 0.0
    return float(over / point["ref"]) if point["ref"] else math.inf


def _raised(value: float, passes: Any) -> float:
    """The value, or the next double or two above it that rounding needs."""
    for _ in range(8):
        if math.isinf(value) or passes(value):
            break
        value = math.nextafter(value, math.inf)
    return value


def _elements(error: Mapping[str, Any], policy: Policy) -> str:
    atol, rtol = policy.get("atol"), policy.get("rtol")
    if atol is None and rtol is None:
        return ""
    atol, rtol = atol or 0.0, rtol or 0.0
    if keeps(error["frontier"], atol, rtol):
        return ""
    point = worst(error["frontier"], atol, rtol)[1] or {}
    place = "(" + ", ".join(map(str, point["index"])) + ")"
    return (
        f"|difference| {point['diff']:.3g} at {place} where |reference| is {point['ref']:.3g}: "
        f"above {_allowed(point, atol, rtol):.3g} (atol {atol:g}, rtol {rtol:g})"
    )


def _cosine(error: Mapping[str, Any], policy: Policy) -> str:
    least, found = policy.get("min_cosine"), error["cosine"]
    if least is None or (found is not None and found >= least):
        return ""
    return f"cosine {'undefined' if found is None else f'{found:.9g}'}, below {least:g}"


def _topk(error: Mapping[str, Any], policy: Policy) -> str:
    wanted = policy.get("min_topk_agreement")
    if wanted is None:
        return ""
    found = error["topk"].get(str(wanted["k"]))
    if found is not None and found >= wanted["share"]:
        return ""
    measured = "not measured" if found is None else f"{found:.4g}"
    return f"top-{wanted['k']} agreement {measured}, below {wanted['share']:g}"
