"""A bundle's repository as its clients need it: what each model takes and gives, and whether a server says the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dspec.spec.errors import GateError
from dspec.spec.records import Interface
from dspec.targets.rows import row_of
from dspec.targets.shipped.serve.datatypes import BYTES, NAMES, field_datatype
from dspec.targets.triton.client import Announced, Client, strings
from dspec.targets.triton.config import outer
from dspec.targets.triton.models import why_alone
from dspec.targets.triton.repository import FOLDER, TRACE_DOOR, TRACE_MODEL, TRACE_SECONDS

STRING = "TYPE_STRING"


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """`answers`: field of the response → its type, dtype and whether it is a scalar; `batched`: whether the model stacks items."""

    name: str
    engine: str
    provider: str
    fields: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]]
    interface: Interface
    together: int
    batched: bool
    ensemble: bool
    stamp: str
    shape: str
    session: Mapping[str, str]

    @classmethod
    def of(cls, bundle: Path) -> Repository:
        """What bundle.json, pipeline.json and the models' own settings say."""
        manifest = json.loads((bundle / "bundle.json").read_text("utf-8"))
        interface = Interface.model_validate_json(json.dumps(manifest["interface"]))
        options, name = manifest["options"], manifest["name"]
        serve = options["serve"]
        ensemble = serve["pipeline"] == "ensemble"
        batched = not why_alone(interface)[0]
        digests = manifest.get("digests") or {"bundle": "0" * 64}
        return cls(
            name=name,
            engine=manifest["engine"],
            provider=options.get("provider", "eager"),
            fields=json.loads((bundle / "pipeline" / "pipeline.json").read_text("utf-8"))["request"],
            answers=_answers(bundle, name, manifest["version"], ensemble),
            interface=interface,
            together=serve["at_once"] or 1,
            batched=batched,
            ensemble=ensemble,
            shape=serve["shape"],
            stamp=digests["bundle"][:12],
            session={key: str(value).lower() for key, value in options.items() if key not in ("serve", "provider")},
        )

    @property
    def model(self) -> str:
        """What takes tensors."""
        return f"{self.name}.model"

    @property
    def door(self) -> tuple[str, ...]:
        return tuple(self.interface.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.interface.outputs)

    @property
    def traces(self) -> bool:
        """Whether a measured server shows what stood at the model's door: an ensemble can't."""
        return not self.ensemble

    @property
    def traced(self) -> tuple[str, ...]:
        return (*(TRACE_DOOR + name for name in self.door), *(TRACE_MODEL + name for name in self.outputs))

    def inputs(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A request in Python form as tensors: a row of one item, where the server has rows."""
        return {name: self._input(field, request[name]) for name, field in self.fields.items()}

    def _input(self, field: Mapping[str, Any], value: Any) -> Any:
        found = row_of(field, value)
        if isinstance(found, list):
            return strings(found, (1, 1) if self._rows else (1,))
        array = np.ascontiguousarray(found, np.dtype(field.get("dtype") or found.dtype))
        if field["type"] == "number" or array.ndim == 1:  # no dims at all: one of size 1
            array = array.reshape(1, 1)
        return array if self._rows else array[0]

    @property
    def _rows(self) -> bool:
        return self.batched or not self.ensemble

    def response(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of one item: arrays without the row's axis, everything else from its JSON."""
        return {name: self._field(found[name], declared) for name, declared in self.answers.items()}

    def _field(self, array: Any, declared: Mapping[str, Any]) -> Any:
        if declared["type"] == STRING:
            return json.loads(bytes(array.reshape(-1)[0]))
        item = array[0] if self._rows else array
        return item.reshape(()) if declared["scalar"] else item

    def parted(self, found: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """What stood at the door and what the model gave, of a traced answer."""
        arrays = {name: array if self.batched else array[0] for name, array in found.items() if name in self.traced}
        door = {name: self._shaped(name, arrays[TRACE_DOOR + name]) for name in self.door}
        return door, {name: self._shaped(name, arrays[TRACE_MODEL + name]) for name in self.outputs}

    def _shaped(self, name: str, array: Any) -> Any:
        port = self.interface.inputs.get(name) or self.interface.outputs[name]
        return array.reshape(array.shape[: len(port.shape)]) if len(port.shape) else array.reshape(())

    def pieces(self, tensors: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """As many rows in each as the server takes at once: a greater batch is for its caller to cut."""
        if not self.batched:
            return [tensors]
        rows = len(next(iter(tensors.values())))
        cuts = range(0, rows, self.together)
        return [{name: array[at : at + self.together] for name, array in tensors.items()} for at in cuts]

    def joined(self, pieces: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """The pieces' outputs as of one batch."""
        if len(pieces) == 1:
            return pieces[0]
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in self.outputs}

    def with_axis(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """As callers send them: a tensor without dims has one of size 1."""
        return {name: array[..., np.newaxis] if self._flat(name) else array for name, array in tensors.items()}

    def without_axis(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """As the model has them."""
        return {name: array[..., 0] if self._flat(name) else array for name, array in tensors.items()}

    def _flat(self, name: str) -> bool:
        port = self.interface.inputs.get(name) or self.interface.outputs[name]
        return outer(port.shape, self.batched)[1] is not None

    def expected(self) -> dict[str, tuple[tuple[Announced, ...], tuple[Announced, ...]]]:
        """Model → its inputs and outputs as a server must announce them; of answers that are arrays, only the datatype is known."""
        ports = tuple(tuple(self._port(name, port.dtype, port.shape) for name, port in side.items())
                      for side in (self.interface.inputs, self.interface.outputs))  # fmt: skip
        return {
            self.model: (ports[0], ports[1]),
            self.name: (tuple(map(self._announced_field, self.fields)), self._announced_answers()),
        }

    def _port(self, name: str, dtype: str, shape: tuple[int | str, ...]) -> Announced:
        dims = outer(shape, self.batched)[0]
        return Announced(name, NAMES[dtype], (-1, *dims) if self.batched else dims)

    def _announced_field(self, name: str) -> Announced:
        field = self.fields[name]
        shape = field.get("shape") if field.get("shape") is not None else [None]
        dims = outer(shape, False)[0] if field["type"] == "tensor" else (1,)
        return Announced(name, field_datatype(field), (-1, *dims) if self._rows else dims)

    def _announced_answers(self) -> tuple[Announced, ...]:
        return tuple(Announced(name, _datatype(declared), ()) for name, declared in self.answers.items())


def _datatype(declared: Mapping[str, Any]) -> str:
    return BYTES if declared["type"] == STRING else NAMES[declared["dtype"]]


def _answers(bundle: Path, name: str, version: str, ensemble: bool) -> dict[str, dict[str, Any]]:
    folder = bundle / FOLDER / (f"{name}.after" if ensemble else name) / str(int(version))
    found: dict[str, dict[str, Any]] = json.loads((folder / "settings.json").read_text("utf-8"))["outputs"]
    return found


def check_metadata(client: Client, repository: Repository) -> None:
    """Raises GateError E1014 where the server announces other tensors than the bundle has; further outputs for measuring aside."""
    for model, (inputs, outputs) in repository.expected().items():
        got_inputs, got_outputs = client.metadata(model)
        got_outputs = tuple(one for one in got_outputs if one.name not in (*repository.traced, TRACE_SECONDS))
        for side, wanted, got in (("input", inputs, got_inputs), ("output", outputs, got_outputs)):
            _check(f"{model}'s {side}s", wanted, got)


def _check(whose: str, wanted: tuple[Announced, ...], got: tuple[Announced, ...]) -> None:
    known = {one.name: one for one in got}
    for one in wanted:
        found = known.pop(one.name, None)
        if found is None or found.datatype != one.datatype or (one.shape and found.shape != one.shape):
            said = f"{found.datatype} {list(found.shape)}" if found else "nothing"
            raise GateError.of("E1014", f"the server announces {said} for {one.name} of {whose}",
                               expected=f"{one.datatype} {list(one.shape)}")  # fmt: skip
    if known:
        raise GateError.of(
            "E1014",
            f"the server announces {', '.join(known)} among {whose}",
            expected=", ".join(one.name for one in wanted),
        )
