"""A build's outcome as a table row and as JSON."""

from __future__ import annotations

from typing import Any

from dspec.compiler.results import BuildResult, TargetResult
from dspec.spec.records import GateVerdict

HEADINGS = (
    "target",
    "parity (worst error / tolerance)",
    "latency / SLO",
    "outside model",
    "size",
    "verdict",
)


def row(target: TargetResult) -> tuple[str, ...]:
    """One target as the cells of HEADINGS."""
    if target.manifest is None or target.manifest.digests is None:
        code = target.error.diagnostics[0].code if target.error else ""
        return (target.target, "", "", "", "", f"STOPPED {code}")
    gates = {found.gate: found for found in target.verdicts}
    return (
        target.target,
        _against(gates["parity"]),
        _against(gates["latency"]),
        _outside(target),
        f"{sum(file.size for file in target.manifest.files) / 1e6:.1f} MB",
        _verdict(target),
    )


def _against(found: GateVerdict) -> str:
    """The figures with their limit beneath; where a gate judges several outputs, each with its own."""
    figures, limits = (text.split("; ") if text else [] for text in (found.measured, found.limit))
    lines = []
    for number, figure in enumerate(figures or [found.verdict]):
        lines += figure.replace(" at [", "\n  at [").split("\n")
        if number < len(limits):
            name = figure.partition(" ")[0] if found.gate == "parity" else ""
            lines.append(f"  limit {limits[number].removeprefix(f'{name} ')}")
    return "\n".join(lines if limits else [*lines, "  no limit"])


def _outside(target: TargetResult) -> str:
    """The share of the serving process's time that is not the model."""
    found = target.measurement.latency if target.measurement else None
    share = found.outside_model if found else None
    if found is None or share is None:
        return "unmeasured"
    total = sum(found.stages_ms.values())
    return f"{share:.0%}\n  {share * total:.3g} of {total:.3g} ms"


def _verdict(target: TargetResult) -> str:
    """PROVED or not, then every gate that did not simply pass, and how many did."""
    words = [
        f"{found.gate.replace('_', ' ')} {found.verdict}{' (waived)' if found.waived_by else ''}"
        for found in target.verdicts
        if found.verdict not in ("pass", "not asked")
    ]
    counts = {verdict: sum(found.verdict == verdict for found in target.verdicts) for verdict in ("pass", "not asked")}
    words += [f"{count} {verdict}" for verdict, count in counts.items() if count]
    return "\n".join(("PROVED" if target.proved else "NOT PROVED", *words))


def build_json(result: BuildResult) -> dict[str, Any]:
    """The outcome for machines."""
    return {
        "name": result.name,
        "published": result.published,
        "changed": result.changed,
        "kept": result.kept,
        "place": str(result.place),
        "exit_code": result.exit_code,
        "warnings": [warning.to_json() for warning in result.warnings],
        "targets": [_target_json(target) for target in result.targets],
    }


def _target_json(target: TargetResult) -> dict[str, Any]:
    digests = target.manifest.digests if target.manifest else None
    return {
        "target": target.target,
        "proved": target.proved,
        "optional": target.optional,
        "exit_code": target.exit_code,
        "evidence_from": list(target.joined),
        "digests": digests.model_dump() if digests else None,
        "verdicts": [found.model_dump(mode="json") for found in target.verdicts],
        "errors": [found.to_json() for found in target.error.diagnostics] if target.error else [],
    }
