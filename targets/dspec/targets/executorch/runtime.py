"""The runtime `executorch`: a `.pte`, proved by the shipped runner over a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dspec.spec.errors import SpecError
from dspec.spec.models import Spec, Target
from dspec.targets.executorch.options import Options
from dspec.targets.executorch.refusals import delegate_of, refusals
from dspec.targets.pinned import installed
from dspec.targets.protocol import Candidate, Environment, Job, Lowered, Session, Wanted

ENGINE = "executorch"
COMMAND = ("python", "-m", "dspec_bundle", "pipe")
NEEDED = ("torch", "executorch", "torchao")
REASONS = {
    "xnnpack": "XNNPACK computes what it takes, portable kernels the rest",
    "none": "portable kernels alone: no library beside ExecuTorch",
}


class ExecuTorch:
    """See `protocol.Runtime`."""

    name = "executorch"
    options: type[Any] = Options

    def candidates(self, spec: Spec, target: Target) -> tuple[Candidate, ...]:
        """float32 as captured, with the delegate asked for. Raises SpecError with every refusal."""
        found = refusals(spec, target)
        if found:
            raise SpecError(found)
        delegate = delegate_of(target)
        wanted = Wanted(builder="pte", options={"delegate": delegate})
        reasons = (REASONS[delegate], "one file for phones and boards")
        return (
            Candidate(
                runtime=self.name,
                engine=ENGINE,
                variant="fp32",
                artifacts=(wanted,),
                reasons=reasons,
                on_host_kernels=True,
            ),
        )

    def missing(self) -> tuple[str, ...]:
        """Distributions that lowering needs and this machine lacks."""
        return tuple(name for name in NEEDED if not installed(name))

    def variations(self, options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """None: what runs is decided when the program is lowered."""
        return {}

    def lower(self, job: Job, out: Path) -> Lowered:
        """Lay `model/` out and load it once as the bundle will.

        Raises:
            ExportError: E0531 the declared runtime lacks a kernel, E0535 too little is delegated, E0537 it does not load.
        """
        from dspec.targets.executorch.laid import lay_pte
        from dspec.targets.executorch.requirements import requirements
        from dspec.targets.shipped.engine_executorch import __file__ as engine_executorch

        options = asdict(job.options) | {"delegate": delegate_of(job.target)}
        laid = lay_pte(job, out, options)
        return Lowered(
            model=laid.model,
            command=COMMAND,
            modules=(Path(engine_executorch),),
            requirements=requirements(),
            options=options,
            toolchain=job.artifacts[0].toolchain,
            metrics=laid.metrics,
        )

    def open(self, bundle: Path, environment: Environment) -> Session:
        """Start the bundle's own command and talk to it over its pipe."""
        from dspec.targets.session import PipeSession

        return PipeSession.of_bundle(bundle, environment)


RUNTIME = ExecuTorch()
