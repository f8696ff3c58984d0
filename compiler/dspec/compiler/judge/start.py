"""The gates over the serving process itself: cold start, memory, smoke."""

from __future__ import annotations

from itertools import pairwise

from dspec.compiler.judge.question import Question
from dspec.spec.records import GateVerdict, Verdict

SETTLED = 0.02  # of the resident memory: growth below that in half of the rounds is no leak
PAGE_NOISE = 4 * 2**20


def cold_start(question: Question) -> GateVerdict:
    """From starting the process to its first answer: every start under the limit passes, every one over it fails."""
    limit, found = question.slo.cold_start_s, question.measurement.cold_start_s
    measured = f"{max(found):.3g} s (slowest of {len(found)} starts)" if found else ""
    if limit is None:
        return GateVerdict(gate="cold_start", verdict="not asked", measured=measured)
    words = f"≤ {limit:g} s"
    if absent := question.unmeasured("cold_start", words):
        return absent
    if not found:
        return GateVerdict(gate="cold_start", verdict="unmeasured", limit=words, detail=("never started",))
    verdict: Verdict = "pass" if max(found) <= limit else "fail" if min(found) > limit else "inconclusive"
    return GateVerdict(gate="cold_start", verdict=verdict, measured=measured, limit=words)


def memory(question: Question) -> GateVerdict:
    """Peak resident memory of the serving process, the largest declared shapes included.

    A process that still grows with every round over the same sizes has no peak yet: inconclusive.
    """
    limit, found = question.target.resources.memory, question.measurement.peak_memory_bytes
    measured = f"{found / 2**20:.0f} MiB peak" if found else ""
    growing = _growing(question.measurement.soak_bytes)
    if limit is None:
        return GateVerdict(gate="memory", verdict="not asked", measured=measured, detail=growing)
    words = f"≤ {limit / 2**20:.0f} MiB"
    if absent := question.unmeasured("memory", words):
        return absent
    if found is None:
        return GateVerdict(
            gate="memory",
            verdict="unmeasured",
            limit=words,
            detail=("this system does not tell it",),
        )
    verdict: Verdict = "fail" if found > limit else "inconclusive" if growing else "pass"
    return GateVerdict(gate="memory", verdict=verdict, measured=measured, limit=words, detail=growing)


def _growing(resident: tuple[int, ...]) -> tuple[str, ...]:
    """A line where the later rounds still added memory; the first warms allocators and arenas."""
    later = resident[len(resident) // 2 :]
    steps = [after - before for before, after in pairwise(later)]
    grown = sum(steps)
    flat = sum(step <= 0 for step in steps)
    if len(steps) < 2 or flat > 1 or grown < max(SETTLED * later[0], PAGE_NOISE):
        return ()
    return (
        f"resident memory still grows with every round over the same sizes: {grown / 2**20:.0f} MiB in the last "
        f"{len(steps)} of {len(resident)} rounds (with onnxruntime, options.memory_arena: false may bound it)",
    )


def smoke(question: Question) -> GateVerdict:
    """The bundle answered from a clean environment."""
    if absent := question.unmeasured("smoke"):
        return absent
    found = question.measurement.smoke
    if found is None:
        return GateVerdict(gate="smoke", verdict="unmeasured", detail=("the bundle was not started",))
    if found == "ok":
        return GateVerdict(gate="smoke", verdict="pass", measured="answered from a clean environment")
    return GateVerdict(gate="smoke", verdict="fail", measured=found)
