"""The runtime `fastapi`: a service, measured through HTTP as its callers meet it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dspec.spec.errors import SpecError
from dspec.spec.models import Spec, Target
from dspec.targets.fastapi.eager_from import refused, taken
from dspec.targets.fastapi.options import SERVE, Options
from dspec.targets.fastapi.refusals import option, refusals
from dspec.targets.pinned import installed
from dspec.targets.protocol import Candidate, Environment, Job, Lowered, Session, Wanted

COMMAND = ("python", "-m", "dspec_bundle", "serve")
NEEDED = ("torch", "onnx", "onnxscript", "onnx-ir", "onnxruntime")
SERVER = ("fastapi", "uvicorn", "orjson", "prometheus-client", "python-multipart")
OF_ONNXRUNTIME = ("provider", "optimization", "inter_op_threads", "spinning", "memory_arena", "opset")
REASONS = {
    "onnxruntime": (
        "engine onnxruntime: one ONNX graph, the same file as runtime onnxruntime ships",
        "no torch where it runs",
    ),
    "eager": ("engine eager: PyTorch in eval and inference mode, float32 as captured",),
}


class FastApi:
    """See `protocol.Runtime`."""

    name = "fastapi"
    options: type[Any] = Options

    def candidates(self, spec: Spec, target: Target) -> tuple[Candidate, ...]:
        """The engine that the target asks for. Raises SpecError with every refusal."""
        found = (*refusals(spec, target), *refused(spec, target))
        if found:
            raise SpecError(found)
        engine = option(target, "engine")
        eager = taken(spec, target) if engine == "eager" else None
        wanted = Wanted(builder="onnx", options={"opset": int(option(target, "opset"))})
        workers = option(target, "workers")
        reasons = (
            *REASONS[engine],
            *((eager.why,) if eager else ()),
            f"{workers} worker{'s' if workers > 1 else ''} apart from the web process, batches of up to {option(target, 'max_batch')}",
        )
        artifacts = (wanted,) if engine == "onnxruntime" else ()
        module = eager is not None and eager.sources
        return (
            Candidate(
                runtime=self.name, engine=engine, variant="fp32", artifacts=artifacts, reasons=reasons, module=module
            ),
        )

    def missing(self) -> tuple[str, ...]:
        """Distributions that lowering needs and this machine lacks."""
        return tuple(name for name in (*NEEDED, *SERVER) if not installed(name))

    def variations(self, options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The service as it ships, without batching, and with fewer of ONNX Runtime's own rewrites."""
        served = options["serve"]
        found = {"the service as it ships": dict(options)}
        if served["max_batch"] > 1:
            found["no batching"] = {**options, "serve": {**served, "max_batch": 1}}
        for level in ("basic", "disabled"):
            if options.get("optimization", level) not in (level, "disabled"):
                found[f"optimization {level}"] = {**options, "optimization": level}
        return found if len(found) > 1 else {}

    def lower(self, job: Job, out: Path) -> Lowered:
        """Lay out the model for its engine, the server, a Dockerfile and Kubernetes manifests.

        Raises:
            ExportError: E0511, E0512, E0513: this ONNX Runtime can't run the graph.
            SpecError: E0520: the workers' weights are more than the memory granted; E0522, E0523: sources that can't ship, or
                with another version of a package than they ran with here.
        """
        from dspec.targets.fastapi.dockerfile import dockerfile
        from dspec.targets.fastapi.engines import lay_engine
        from dspec.targets.fastapi.requirements import requirements
        from dspec.targets.kubernetes.lay import lay_kubernetes
        from dspec.targets.kubernetes.serving import service_serving
        from dspec.targets.shipped.parts import SERVE as SERVER_FILES
        from dspec.targets.shipped.parts import __file__ as parts

        options: Options = job.options
        values = asdict(options)
        engine = {name: values[name] for name in ("intra_op_threads",)}
        if options.engine == "onnxruntime":
            engine |= {name: values[name] for name in OF_ONNXRUNTIME}
        laid = lay_engine(job, out, engine)
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        (out / "Dockerfile").write_text(dockerfile(job.spec.name, python, options.engine))
        lay_kubernetes(out, job, service_serving(deadline_ms=options.deadline_ms, workers=options.workers))
        return Lowered(
            model=laid.model,
            command=COMMAND,
            modules=(*(Path(parts).parent / name for name in SERVER_FILES), *laid.modules),
            requirements=tuple(sorted({*requirements(options.engine), *laid.requirements})),
            options={**engine, "serve": {name: values[name] for name in SERVE}},
            toolchain=laid.toolchain,
            metrics=laid.metrics,
        )

    def open(self, bundle: Path, environment: Environment) -> Session:
        """Start the bundle's own command and talk to it over HTTP."""
        from dspec.targets.fastapi.session import HttpSession

        command = tuple(json.loads((bundle / "bundle.json").read_text(encoding="utf-8"))["command"])
        return HttpSession(bundle, command, environment)


RUNTIME = FastApi()
