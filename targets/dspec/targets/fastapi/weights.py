"""Whether the workers' weights fit into the memory granted: known when lowering, before anything is measured."""

from __future__ import annotations

from dspec.spec.errors import SpecError
from dspec.targets.fastapi.options import Options
from dspec.targets.protocol import Job

BASE_BYTES = {"onnxruntime": 48 << 20, "eager": 160 << 20}  # interpreter and libraries of one worker, without a model
WEB_BYTES = 48 << 20
MIB = 1 << 20


def check_memory(job: Job, weights: int, options: Options) -> None:
    """Row 124 of the faults: each worker loads its own. Raises SpecError E0520 at the target's memory."""
    granted = job.target.resources.memory
    worker = weights + BASE_BYTES[options.engine]
    needed = options.workers * worker + WEB_BYTES
    if granted is None or needed <= granted:
        return
    raise SpecError.of(
        "E0520",
        f"{options.workers} worker{'s' if options.workers > 1 else ''} of {worker / MIB:.0f} MiB "
        f"({weights / MIB:.0f} MiB of weights each) and the web process need {needed / MIB:.0f} MiB before the first request",
        key="resources.memory",
        expected=f"no more than the {granted / MIB:.0f} MiB granted",
        hint="give fewer `workers` (each holds the weights once), or more memory",
    )
