"""Every twin becomes an ONNX graph of dynamic batch whose answers in ONNX Runtime are those of the step."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from ruamel.yaml import YAML
from torch import nn
from torch.export import Dim

from dspec.targets import twins
from dspec.targets.shipped import steps

CASES: dict[str, list[dict[str, Any]]] = YAML(typ="safe").load(Path(__file__).with_name("cases.yaml"))
COUNT = 3


class Several(nn.Module):
    """All cases of one step in one graph: an export costs more than what is in it."""

    def __init__(self, every: list[Any], counts: list[int]) -> None:
        super().__init__()
        self.twins, self.counts = nn.ModuleList(every), counts

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found, at = [], 0
        for twin, count in zip(self.twins, self.counts, strict=True):
            found.append(twin(*values[at : at + count]))
            at += count
        return tuple(found)


@pytest.mark.parametrize("name", CASES)
def test_a_twin_in_onnx_runtime_is_its_step(name: str, tmp_path: Path, drawn: Any) -> None:
    made = [
        steps.load(name)(**{key: tuple(v) if isinstance(v, list) else v for key, v in case["params"].items()})
        for case in CASES[name]
    ]
    values = [
        [drawn(port[0], port[1], COUNT, seed) for seed, port in enumerate(case["values"])] for case in CASES[name]
    ]
    module = Several([twins.load(name)(step) for step in made], [len(one) for one in values])
    given = [array for one in values for array in one]
    example = tuple(torch.from_numpy(array.copy()) for array in given)
    dynamic = (tuple({0: Dim.AUTO(min=1, max=8)} for _ in example),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module, example, dynamic_shapes=dynamic, strict=False)
        written = torch.onnx.export(exported, dynamo=True, verbose=False)
    assert written is not None
    written.save(tmp_path / "twin.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "twin.onnx"), providers=["CPUExecutionProvider"])
    ports = [port.name for port in session.get_inputs()]
    for count in (1, COUNT):  # another batch than the example's, too
        found = session.run(None, {port: array[:count] for port, array in zip(ports, given, strict=True)})
        for step, arrays, one in zip(made, values, found, strict=True):
            run = step.open()
            expected = np.stack([run(*(array[item] for array in arrays)) for item in range(count)])
            assert (one.dtype, one.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(one, expected, rtol=2e-6, atol=2e-7 if one.dtype.kind == "f" else 0)
