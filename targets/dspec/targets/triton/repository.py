"""The files of a model repository."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dspec.spec.errors import Diagnostic, ExportError
from dspec.spec.records import Interface, Port
from dspec.targets import shipped
from dspec.targets.triton.config import STRING, TYPES, Config, Edge, Warmup, outer, text
from dspec.targets.triton.edges import misfits
from dspec.targets.triton.models import Served, configs, most

FOLDER = "model_repository"
TRACE_DOOR, TRACE_MODEL, TRACE_SECONDS = "door.", "model.", "stage.seconds"
DTYPES = {type: dtype for dtype, type in TYPES.items()}
ENTRY = Path(shipped.__path__[0]) / "triton" / "model.py"
KINDS = {"": "calls", ".model": "alone", ".before": "before", ".after": "after"}


def lay_repository(served: Served, engine: Mapping[str, Any], weights: Path, out: Path) -> tuple[Config, ...]:
    """Write every model's folder below `out`/model_repository, but pipeline and code, which `copies` names.

    `engine`: what bundle.json says of it, `weights`: the folder whose files move into `<name>.model`. Raises ExportError E1005
    where the parts of an ensemble do not fit, E1006 where Triton's own definition reads another configuration.
    """
    found = configs(served)
    check_ensemble(found)
    for config in found:
        folder = out / FOLDER / config.name
        version = folder / str(config.version)
        version.mkdir(parents=True)
        (folder / "config.pbtxt").write_text(text(config), encoding="utf-8")
        check_text(config)
        settings = _settings(served, config, engine)
        (version / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        if config.backend == "python":
            shutil.copyfile(ENTRY, version / "model.py")
        _warmups(folder / "warmup", config.warmups, served.interface)
    _move(weights, out / model_folder(served))
    return found


def model_folder(served: Served) -> str:
    """The version folder that holds the weights, below the bundle."""
    return f"{FOLDER}/{served.name}.model/{int(served.version)}"


def copies(found: Iterable[Config]) -> tuple[tuple[str, str], ...]:
    """What each model's folder holds of the bundle's own, so that it can be taken away alone."""
    pairs = []
    for config in found:
        version = f"{FOLDER}/{config.name}/{config.version}"
        if config.backend == "python":
            pairs.append(("dspec_bundle", f"{version}/dspec_bundle"))
            if not config.name.endswith(".model"):
                pairs.append(("pipeline", f"{version}/pipeline"))
    return tuple(pairs)


def stamped(found: Iterable[Config]) -> tuple[str, ...]:
    return tuple(f"{FOLDER}/{config.name}/config.pbtxt" for config in found)


def check_ensemble(found: tuple[Config, ...]) -> None:
    """Raises ExportError E1005 with everything that does not fit along the edges."""
    models = {config.name: config for config in found}
    problems = [words for config in found if config.parts for words in misfits(config, models)]
    if problems:
        raise ExportError(
            Diagnostic(code="E1005", message=words, expected="the same type and shape at both ends",
                       hint="change the step or the declared shapes, or use `pipeline: calls`")
            for words in problems
        )  # fmt: skip


def check_text(config: Config) -> None:
    """Raises ExportError E1006 where Triton's own definition does not read what was meant; nothing where it is not installed."""
    try:
        from google.protobuf import text_format
        from tritonclient.grpc import model_config_pb2
    except ModuleNotFoundError:
        return
    try:
        read = text_format.Parse(text(config), model_config_pb2.ModelConfig())
    except text_format.ParseError as error:
        raise ExportError.of("E1006", f"{config.name}/config.pbtxt is no configuration: {error}") from error
    types = model_config_pb2.DataType.Name
    for side, edges, tensors in (("inputs", config.inputs, read.input), ("outputs", config.outputs, read.output)):
        meant = [(edge.name, edge.type, edge.dims) for edge in edges]
        got = [(one.name, types(one.data_type), tuple(one.dims)) for one in tensors]
        if got != meant:
            raise ExportError.of("E1006", f"{config.name}/config.pbtxt has the {side} {got}", expected=str(meant))


def _settings(served: Served, config: Config, engine: Mapping[str, Any]) -> dict[str, Any]:
    suffix = config.name.removeprefix(served.name)
    common = {
        "kind": "ensemble" if config.parts else KINDS[suffix],
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "max_batch": config.max_batch,
        "trace": [],
    }
    if config.parts or config.backend != "python":
        return common
    if suffix == ".model":
        return common | dict(engine)
    outputs = {edge.name: _described(edge) for edge in config.outputs}
    if suffix == ".before":
        return common
    if suffix == ".after":
        return common | {"outputs": outputs}
    ports = {**served.interface.inputs, **served.interface.outputs}
    batched = bool(most(served.interface, served.options))
    flat = [name for name, port in ports.items() if outer(port.shape, batched)[1] is not None]
    return common | {
        "max_batch": most(served.interface, served.options),
        "trace": _trace(served.interface, batched),
        "outputs": outputs,
        "model": f"{served.name}.model",
        "flat": flat,
    }


def _described(edge: Edge) -> dict[str, Any]:
    """`dtype` where it is no string; `scalar` where callers see an axis of size 1 that the value has not."""
    if edge.type == STRING:
        return {"type": edge.type}
    return {"type": edge.type, "dtype": DTYPES[edge.type], "scalar": edge.reshape == ()}


def _trace(interface: Interface, batched: bool) -> list[dict[str, Any]]:
    """Further outputs of a measured server. With items one by one they have the model's own axes behind the one of the request."""
    found = [_traced(TRACE_DOOR + name, port, batched) for name, port in interface.inputs.items()]
    found += [_traced(TRACE_MODEL + name, port, batched) for name, port in interface.outputs.items()]
    return [*found, {"name": TRACE_SECONDS, "data_type": "TYPE_FP64", "dims": [3]}]


def _traced(name: str, port: Port, batched: bool) -> dict[str, Any]:
    dims = [size if isinstance(size, int) else -1 for size in port.shape][1 if batched else 0 :]
    return {"name": name, "data_type": TYPES[port.dtype], "dims": dims or [-1]}


def _warmups(folder: Path, warmups: Iterable[Warmup], interface: Interface) -> None:
    """The least value that may occur, where 0 may not."""
    for warmup in warmups:
        for name, (type, dims, file) in warmup.files.items():
            folder.mkdir(exist_ok=True)
            bounds = interface.inputs[name].range
            assert bounds
            array = np.full((max(1, warmup.batch), *dims), bounds[0], DTYPES[type])
            (folder / file).write_bytes(array.tobytes())


def _move(weights: Path, to: Path) -> None:
    """The listing stays in model/, for reviewers; the weights lie once, where the server reads them."""
    for path in sorted(weights.iterdir()):
        if path.name != "graph.txt":
            path.rename(to / path.name)
