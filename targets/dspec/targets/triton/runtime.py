"""The runtime `triton`: a model repository, measured through a real server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dspec.spec.errors import SpecError
from dspec.spec.models import Spec, Target
from dspec.spec.records import Metric
from dspec.targets.pinned import installed
from dspec.targets.protocol import Candidate, Environment, Job, Lowered, Session, Wanted
from dspec.targets.triton.options import OF_ONNXRUNTIME, SERVE, Options
from dspec.targets.triton.refusals import at_once, has_accelerator, option, options_of, refusals, why_not_batched

if TYPE_CHECKING:
    from dspec.targets.triton.elsewhere import Elsewhere

COMMAND = ("tritonserver", "--model-repository", "model_repository")
NEEDED = ("torch", "onnx", "onnxscript", "onnx-ir", "onnxruntime", "orjson")
OF_SERVE = ("__init__", "batch", "datatypes", "infer", "padding", "predict", "refusals", "tensors")
OF_TRITON = ("__init__", "after", "alone", "before", "bridge", "calls", "model", "rows")
SHAPES = {
    "python": "shape python: the model runs in the server's Python backend, in an environment of the bundle's requirements",
    "onnxruntime": "shape onnxruntime: the model runs in the server's own ONNX Runtime backend, which the server must have",
}
PIPELINES = {
    "calls": "the steps call the model with a whole batch, filled up by the pipeline's own rule",
    "ensemble": "an ensemble of the steps before, the model and the steps after; texts of different lengths are not stacked",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Laid:
    """The weights in `model/`, not yet in the repository; `module` runs them in Python."""

    model: Mapping[str, Any]
    module: Path
    toolchain: Mapping[str, str]
    metrics: tuple[Metric, ...]


class Triton:
    """See `protocol.Runtime`."""

    name = "triton"
    options: type[Any] = Options

    def candidates(self, spec: Spec, target: Target) -> tuple[Candidate, ...]:
        """The shape and engine that the target asks for. Raises SpecError with every refusal."""
        found = refusals(spec, target)
        if found:
            raise SpecError(found)
        engine = option(target, "engine")
        wanted = Wanted(builder="onnx", options={"opset": int(option(target, "opset"))})
        one_by_one = why_not_batched(spec) if spec.model.outputs else ""
        batching = f"items run one by one: {one_by_one}" if one_by_one else f"batches of up to {at_once(spec, target)}"
        return (
            Candidate(
                runtime=self.name,
                engine=engine,
                variant="fp32",
                artifacts=(wanted,) if engine == "onnxruntime" else (),
                reasons=(SHAPES[option(target, "shape")], PIPELINES[option(target, "pipeline")], batching),
            ),
        )

    def missing(self) -> tuple[str, ...]:
        """Distributions that lowering needs and this machine lacks; the server is only needed to measure."""
        return tuple(name for name in NEEDED if not installed(name))

    def variations(self, options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """None: what runs is said in the repository's files."""
        return {}

    def unserved(self, options: Mapping[str, Any]) -> str:
        """Why this machine can't run such a bundle's server, in words; empty where it can. Without options: the defaults."""
        from dspec.targets.triton.here import why_not

        return why_not(options["serve"]["shape"] if options else Options.shape)

    def lower(self, job: Job, out: Path) -> Lowered:
        """Lay out the repository.

        Raises:
            ExportError: E0511, E0512, E0513: this ONNX Runtime can't run the graph; E1005: the ensemble's parts do not fit.
        """
        from dspec.targets.kubernetes.lay import lay_kubernetes
        from dspec.targets.kubernetes.serving import triton_serving
        from dspec.targets.pinned import ENGINES, pinned
        from dspec.targets.shipped.parts import __file__ as parts
        from dspec.targets.triton.models import most
        from dspec.targets.triton.repository import copies, lay_repository, model_folder, stamped
        from dspec.targets.triton.served import served_of

        options = options_of(job.target)
        engine = _engine_options(options, job.target.resources.cores)
        laid = _eager(job, out) if options.engine == "eager" else _onnxruntime(job, out, engine)
        served = served_of(job, options, has_accelerator(job.target))
        file = Path(laid.model["path"]).name
        together = {"at_once": most(served.interface, options)}
        in_bundle = {**engine, "serve": {name: asdict(options)[name] for name in SERVE} | together}
        settings = {
            "engine": options.engine,
            "model": {"path": file},
            "options": engine,
            "cores": job.target.resources.cores,
            "interface": job.program.interface.model_dump(mode="json"),
        }
        found = lay_repository(served, settings, out / "model", out)
        lay_kubernetes(out, job, triton_serving())
        root = Path(parts).parent
        shipped = [root / "serve" / f"{name}.py" for name in OF_SERVE]
        shipped += [root / "triton" / f"{name}.py" for name in OF_TRITON]
        return Lowered(
            model={**laid.model, "path": f"{model_folder(served)}/{file}"},
            command=COMMAND,
            modules=(*shipped, laid.module),
            requirements=tuple(sorted(pinned(("numpy", "orjson", *ENGINES[options.engine])))),
            options=in_bundle,
            toolchain=laid.toolchain,
            metrics=laid.metrics,
            copies=copies(found),
            stamped=stamped(found),
        )

    def open(self, bundle: Path, environment: Environment) -> Session:
        """Start a server over the bundle's repository and talk to it."""
        from dspec.targets.triton.session import TritonSession

        return TritonSession(bundle, environment)

    def connect(self, bundle: Path, url: str) -> Elsewhere:
        """The bundle on a server that runs already."""
        from dspec.targets.triton.elsewhere import Elsewhere

        return Elsewhere(bundle, url)

    def serve(self, bundle: Path, environment: Environment, host: str, port: int) -> int:
        """Serve the bundle until told to stop."""
        from dspec.targets.triton.serving import serve

        return serve(bundle, environment, host, port)


def _engine_options(options: Options, cores: int) -> dict[str, Any]:
    """Each instance has its own threads: never the cores of all of them."""
    values = asdict(options)
    threads = options.intra_op_threads or max(1, cores // options.instances)
    return {"intra_op_threads": threads} | (
        {name: values[name] for name in OF_ONNXRUNTIME} if options.engine == "onnxruntime" else {}
    )


def _onnxruntime(job: Job, out: Path, options: Mapping[str, Any]) -> _Laid:
    from dspec.targets.artifacts.onnx_laid import lay_onnx
    from dspec.targets.shipped.engine_onnxruntime import __file__ as module

    (artifact,) = job.artifacts
    laid = lay_onnx(job, artifact, out, options)
    return _Laid(model=laid.model, module=Path(module), toolchain=artifact.toolchain, metrics=laid.metrics)


def _eager(job: Job, out: Path) -> _Laid:
    from dspec.targets.artifacts.pt2_laid import ENGINE, lay_pt2

    laid = lay_pt2(job, out)
    return _Laid(model=laid.model, module=ENGINE, toolchain=laid.toolchain, metrics=laid.metrics)


RUNTIME = Triton()
