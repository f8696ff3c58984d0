"""The runtime `onnxruntime`: one ONNX graph, served by the shipped runner over a pipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dspec.spec.errors import SpecError
from dspec.spec.models import Spec, Target
from dspec.targets.artifacts.onnx_refusals import refusals
from dspec.targets.onnxruntime.options import Options
from dspec.targets.pinned import installed
from dspec.targets.protocol import Candidate, Environment, Job, Lowered, Session, Wanted

ENGINE = "onnxruntime"
COMMAND = ("python", "-m", "dspec_bundle", "pipe")
NEEDED = ("torch", "onnx", "onnxscript", "onnx-ir", "onnxruntime")
REQUIRED = ("numpy", "onnxruntime")  # in the bundle


class OnnxRuntime:
    """See `protocol.Runtime`."""

    name = "onnxruntime"
    options: type[Any] = Options

    def candidates(self, spec: Spec, target: Target) -> tuple[Candidate, ...]:
        """The one way to run it: float32 as captured, in ONNX Runtime. Raises SpecError with every refusal."""
        found = refusals(spec, target)
        if found:
            raise SpecError(found)
        wanted = Wanted(builder="onnx", options={"opset": int(target.options.get("opset", 0))})
        reasons = ("one portable graph for CPUs", "needs neither torch nor dspec where it runs")
        return (Candidate(runtime=self.name, engine=ENGINE, variant="fp32", artifacts=(wanted,), reasons=reasons),)

    def missing(self) -> tuple[str, ...]:
        """Distributions that lowering needs and this machine lacks."""
        return tuple(name for name in NEEDED if not installed(name))

    def variations(self, options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The graph as it ships, and with fewer of ONNX Runtime's own rewrites."""
        own = str(options["optimization"])
        lower = [level for level in ("basic", "disabled") if level != own] if own != "disabled" else []
        return {f"optimization {level}": {**options, "optimization": level} for level in (own, *lower)}

    def lower(self, job: Job, out: Path) -> Lowered:
        """Lay `model/` out and load it once as the bundle will.

        Raises:
            ExportError: E0511, E0512, E0513: this ONNX Runtime can't run the graph.
        """
        from dspec.targets.artifacts.onnx_laid import lay_onnx
        from dspec.targets.shipped.engine_onnxruntime import __file__ as engine_onnxruntime

        (artifact,) = job.artifacts
        options = asdict(job.options)
        laid = lay_onnx(job, artifact, out, options)
        return Lowered(
            model=laid.model,
            command=COMMAND,
            modules=(Path(engine_onnxruntime),),
            requirements=tuple(f"{name}=={version(name).partition('+')[0]}" for name in REQUIRED),
            options=options,
            toolchain=artifact.toolchain,
            metrics=laid.metrics,
        )

    def open(self, bundle: Path, environment: Environment) -> Session:
        """Start the bundle's own command and talk to it over its pipe."""
        from dspec.targets.session import PipeSession

        return PipeSession.of_bundle(bundle, environment)


RUNTIME = OnnxRuntime()
