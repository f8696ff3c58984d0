"""The self-test: replay the golden vectors, twice, hold the value after every step to them, and the answers to policy.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .compare import compare, compare_outputs
from .errors import BundleError, RequestError
from .golden import Golden, altered_contract, read_golden, read_policy
from .pipeline import Trace, to_json
from .replay import first_apart
from .request import read_request
from .runner import Bundle
from .tolerance import broken_by

EXACT = {"atol": 1e-5, "rtol": 1e-5}  # of the pipeline, which runs no model
SAME = {"atol": 0.0, "rtol": 0.0}
CALLS = (1, 2)  # a second call must agree as well as the first

Case = dict[str, Any]  # the JSON form of records.Case


def selftest(folder: Path) -> dict[str, Any]:
    """Replay `folder`/golden on the bundle in `folder`; numbers, and whether they keep policy.json.

    {"ok", "bundle": its digest, "facts", "cases": records.Case in JSON form, "failures": [text]}. Raises BundleError
    where bundle or golden folder can't be read.
    """
    return replayed(Bundle(folder))


def replayed(bundle: Bundle) -> dict[str, Any]:
    """As `selftest`, on a bundle that is loaded."""
    golden = bundle.folder / "golden"
    report = _Report(read_policy(golden))
    for item in read_golden(golden):
        report.break_off(item.id, "the caller's part", altered_contract(item))
        for call in CALLS:
            _replay(bundle, item, call, report)
    digests = bundle.manifest.get("digests") or {}
    return {
        "ok": report.ok,
        "bundle": digests.get("bundle", ""),
        "facts": dict(bundle.facts),
        "cases": report.cases,
        "failures": report.failures,
    }


class _Report:
    """Cases and failures as they come in."""

    def __init__(self, policy: Mapping[str, Any]) -> None:
        self.tolerance: Mapping[str, Any] = policy["tolerance"]
        self._spared = int(policy.get("max_failing", 0))
        self.cases: list[Case] = []
        self.failures: list[str] = []
        self._parted: set[str] = set()  # fixtures whose outputs left their tolerance
        self._broken = False  # anything that no number of failing fixtures excuses

    @property
    def ok(self) -> bool:
        return not self._broken and len(self._parted) <= self._spared

    def part(self, fixture: str, what: str, reasons: list[str]) -> None:
        """An output outside its tolerance."""
        if reasons:
            self._parted.add(fixture)
            self.failures += [f"{fixture}: {what}: {reason}" for reason in reasons]

    def break_off(self, fixture: str, what: str, reasons: list[str]) -> None:
        """The pipeline parted from what was recorded, or no answer came."""
        if reasons:
            self._broken = True
            self.failures += [f"{fixture}: {what}: {reason}" for reason in reasons]


def _replay(bundle: Bundle, item: Golden, call: int, report: _Report) -> None:
    trace: Trace = []
    after: Trace = []
    try:
        outcome = bundle.ask(read_request(bundle.pipeline.fields, item.request, item.folder), trace)
        response = to_json(bundle.pipeline.after(item.outputs, after))
    except (RequestError, BundleError) as error:
        report.break_off(item.id, "no answer", [str(error)])
        return
    door = {name: compare(array, outcome.door.get(name)) for name, array in item.door.items()}
    outputs, valid = compare_outputs(item.outputs, outcome.outputs, report.tolerance, item.door)
    found = {"outputs": outputs, "door": door, "valid": valid}
    report.cases.append({"id": item.id, "kind": "fixture", "call": call, **found})
    before = trace[: len(trace) - len(after)]
    report.break_off(item.id, *first_apart(item.trace, before, after, differences))
    for name, parted in door.items():
        rule = EXACT if item.door[name].dtype.kind == "f" else SAME
        report.break_off(item.id, f"input {name}", broken_by(parted, rule))
    report.break_off(item.id, "response", differences(to_json(item.response), response))
    for name, parted in outputs.items():
        policy = report.tolerance.get(name, {})
        report.part(item.id, f"output {name}", broken_by(valid.get(name, parted), policy))


def differences(recorded: Any, found: Any, at: str = "", within: Mapping[str, float] = EXACT) -> list[str]:
    """Where two JSON values part, in words; numbers `within` atol and rtol are equal."""
    if isinstance(recorded, dict) and isinstance(found, dict) and recorded.keys() == found.keys():
        pairs: Any = ((f"{at}.{key}", recorded[key], found[key]) for key in recorded)
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        pairs = ((f"{at}[{n}]", *pair) for n, pair in enumerate(zip(recorded, found, strict=True)))
    else:
        return [] if _same(recorded, found, within) else [_parted(at, recorded, found)]
    for place, mine, its in pairs:
        reasons = differences(mine, its, place, within)
        if reasons:
            return reasons
    return []


def _same(recorded: Any, found: Any, within: Mapping[str, float]) -> bool:
    kinds = {type(recorded), type(found)}
    if kinds <= {int, float} and kinds != {int}:  # an index or an id has no near neighbours
        return bool(np.isclose(found, recorded, within["rtol"], within["atol"]))
    return type(recorded) is type(found) and bool(recorded == found)


def _parted(at: str, recorded: Any, found: Any) -> str:
    return f"{at.lstrip('.') or 'whole'} is {_brief(found)}, recorded {_brief(recorded)}"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def summary(report: Mapping[str, Any]) -> str:
    """The report for people."""
    fixtures = len({case["id"] for case in report["cases"]})
    head = "ok" if report["ok"] else "FAILED"
    lines = [f"{head}: {fixtures} golden fixtures, {len(report['cases'])} answers compared"]
    lines.append("ran on " + ", ".join(f"{name} {fact}" for name, fact in report["facts"].items()))
    return "\n".join(lines + [f"  {failure}" for failure in report["failures"]])
