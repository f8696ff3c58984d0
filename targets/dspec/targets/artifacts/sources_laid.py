"""The user's own module, laid into a bundle for the engine `eager`: its sources, its weights, how it is made and called."""

from __future__ import annotations

import json
import math
import shutil
from importlib.metadata import version
from pathlib import Path

from dspec.spec.errors import SpecError
from dspec.spec.records import Metric
from dspec.targets.artifacts.pt2_laid import ENGINE, FOLDER, Laid, listing
from dspec.targets.protocol import Job, Module
from dspec.targets.shipped.forward import __file__ as forward

MODEL, WEIGHTS, SOURCES = "model.json", "weights.safetensors", "sources"
MODULES = (ENGINE, Path(__file__).with_name("source_module.py"), Path(forward))  # the files that run it
INSTEAD = "set `eager_from: program`: the exported program needs none of the module's code"


def lay_sources(job: Job, module: Module, out: Path) -> Laid:
    """Write `model/`. Raises SpecError E0522 for weights that can't be stored by name."""
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in module.files:
        (folder / SOURCES / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(module.folder / name, folder / SOURCES / name)
    size, tied = _weights(job, folder)
    (folder / MODEL).write_text(json.dumps(_described(module) | {"tied": tied}, indent=1) + "\n", encoding="utf-8")
    parameters = sum(math.prod(tensor.shape) for tensor in job.program.tensors)
    return Laid(
        model={"path": f"{FOLDER}/{MODEL}", "format": "sources", "bytes": size, "parameters": parameters},
        toolchain={"torch": version("torch")},
        metrics=(
            Metric(name="model_bytes", value=size, unit="bytes", better="lower"),
            Metric(name="parameters", value=parameters, unit="numbers"),
        ),
    )


def _described(module: Module) -> dict[str, object]:
    return {
        "factory": module.factory,
        "config": dict(module.config),
        "inputs": list(module.inputs),
        "outputs": dict(module.outputs),
        "copied": list(module.copied),
    }


def _weights(job: Job, folder: Path) -> tuple[int, dict[str, str]]:
    """The program's own tensors, under the names of the user's module; size in bytes, and tied names → the one stored."""
    import torch
    from torch.export.graph_signature import InputKind

    from dspec.targets.artifacts.safetensors_write import once, write_safetensors

    program = torch.export.load(job.program.path)
    (folder / "graph.txt").write_text(listing(program.graph), encoding="utf-8")
    buffers = {spec.target for spec in program.graph_signature.input_specs if spec.kind is InputKind.BUFFER}
    computed = {name: value for name, value in program.constants.items() if name in buffers}
    kept, tied = once({**program.state_dict, **computed})
    try:
        return write_safetensors(kept, folder / WEIGHTS), tied
    except ValueError as error:
        message = f"the module's weights can't ship beside its sources: {error}"
        raise SpecError.of("E0522", message, key="options.eager_from", hint=INSTEAD) from error
