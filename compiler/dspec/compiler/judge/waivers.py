"""A waiver lets one verdict of one gate pass, in somebody's name and until a day."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from dspec.spec.models import Waiver
from dspec.spec.records import GateVerdict

WAIVED = ("fail", "inconclusive", "unmeasured")


def waive(found: GateVerdict, waivers: Sequence[Waiver], today: datetime.date) -> GateVerdict:
    """The verdict, marked where a waiver in force covers it; an expired one is refused in words."""
    for waiver in waivers:
        if waiver.gate != found.gate or found.verdict not in WAIVED:
            continue
        if waiver.verdict != found.verdict:
            refusal = (
                f"waiver of {waiver.owner} does not fit: it is for {waiver.verdict}, and the verdict is {found.verdict}"
            )
            found = found.model_copy(update={"detail": (*found.detail, refusal)})
            continue
        if waiver.expires < today:
            refusal = f"waiver of {waiver.owner} refused: it expired on {waiver.expires} (today is {today})"
            return found.model_copy(update={"detail": (*found.detail, refusal)})
        words = f"{waiver.owner} until {waiver.expires}: {waiver.reason}"
        return found.model_copy(update={"waived_by": words})
    return found
