"""Each `cases/*.case` is a model.py whose docstring says, as JSON, the spec around it and what capture owes for it."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dspec.spec.errors import DspecError, ExportError, SpecError

CASES = sorted((Path(__file__).parent / "cases").glob("*.case"))


def _expectation(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ast.get_docstring(ast.parse(path.read_text())) or "")
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path: Path, run: Any) -> None:
    case = _expectation(path)
    model = {key: case[key] for key in ("inputs", "outputs", "dims", "config", "code", "files") if key in case}
    if "error" in case:
        with pytest.raises(DspecError) as caught:
            run(path.read_text(), model, lines=case.get("rows"))
        found = caught.value.diagnostics
        text = "\n".join(str(one) for one in found)
        assert case["error"] in {one.code for one in found}, text
        assert isinstance(caught.value, SpecError if case.get("exit") == 2 else ExportError), text
        for words in case["says"]:
            assert words in text, text
        if "line" in case:
            assert (found[0].file, found[0].line) == ("model.py", case["line"]), text
        return
    captured = run(path.read_text(), model, lines=case.get("rows"))
    for words in case.get("warns", []):
        assert words in captured.said()
    if "warns" not in case:
        assert captured.said() == ""
    assert list(captured.result.interface.outputs) == case.get("names", list(case.get("outputs", {})))
    _check_program(captured)
    for name, values in case.get("first", {}).items():
        _, _, outputs = next(captured.cases())
        np.testing.assert_allclose(outputs[name], values, rtol=1e-5)


def _check_program(captured: Any) -> None:
    """The saved program gives the reference's answers for every case, from sizes 2 up."""
    program = torch.export.load(captured.program / "model.pt2").module(check_guards=False)
    names = list(captured.result.interface.outputs)
    inputs = list(captured.result.interface.inputs)
    compared = 0
    for case, given, wanted in captured.cases():
        if min(case["sizes"].values(), default=2) < 2:
            continue
        with torch.no_grad():
            found = program(*(torch.from_numpy(given[name]) for name in inputs))
        for name, value in zip(names, found, strict=True):
            np.testing.assert_allclose(value.float().numpy(), wanted[name].astype(np.float32), rtol=1e-3, atol=1e-4)
        compared += 1
    assert compared
