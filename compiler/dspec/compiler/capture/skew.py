"""The training-time preprocessing, run on the same raw requests and held against the shipped pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dspec.compiler.capture.fixtures import Fixture
from dspec.compiler.capture.shapes import Array, Arrays
from dspec.compiler.capture.usercode import UserCode
from dspec.spec.errors import SpecError
from dspec.spec.records import Case, OutputError
from dspec.targets.shipped.compare import compare
from dspec.targets.shipped.door import Door
from dspec.targets.shipped.errors import RequestError


@dataclass(frozen=True, slots=True)
class Training:
    """`training.preprocess`: f(request) → {model input: array of one item}."""

    function: Callable[[dict[str, Any]], Any]
    callee: str
    code: UserCode
    door: Door

    def case(self, fixture: Fixture, shipped: Arrays) -> Case:
        """The error of every model input that the shipped pipeline made of this request.

        Raises SpecError with the user's line when the training code fails, or gives no such inputs.
        """
        doing = f"{self.callee} on {fixture.id}"
        with self.code.guard(doing, kind=SpecError, code="E0454"):
            given = self.function(dict(fixture.request))
        self._check(given, doing)
        errors = {name: self._error(name, given.get(name), shipped[name]) for name in self.door.inputs}
        return Case(id=fixture.id, kind="fixture", outputs=errors)

    def _check(self, given: Any, doing: str) -> None:
        known = ", ".join(self.door.inputs)
        expected = f"a dict with the model inputs {known}, arrays of one item"
        if not isinstance(given, Mapping):
            message = f"{doing}: returned {type(given).__name__}"
            raise SpecError.of("E0454", message, key="training.preprocess", expected=expected, hint="return a dict")
        unknown = [str(name) for name in given if name not in self.door.inputs]
        if unknown or not given:
            message = f"{doing}: returned {', '.join(unknown) or 'nothing'}, which is no model input"
            raise SpecError.of("E0454", message, key="training.preprocess", expected=expected, hint="name them so")

    def _error(self, name: str, given: Any, shipped: Array) -> OutputError:
        if given is None:
            return OutputError(broken="the training code gives no such input")
        value = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
        try:
            one = Door({name: self.door.inputs[name]}, self.door.dims, self.door.batch)
            reference = one.enter({name: value}, {name: name})[name]
        except RequestError as error:
            return OutputError(broken=f"the training code gives {error.found}; the model takes {error.expected}")
        return OutputError.model_validate(compare(reference, shipped), strict=False)
