"""Values at the model's door that look as if a scale was applied twice, or never."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dspec.compiler.capture.shapes import Array, Arrays
from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec, StepUse

SCALING = ("scale", "normalize", "standardize")
MOVING = ("layout", "channels", "resize", "center_crop", "crop", "pad", "frame")  # these leave values as they are
COLOURS = 3
LEAST, MOST = 0.02, 50.0  # networks are trained on inputs of about 1; 1/255 twice leaves 1/255, not at all leaves 255


@dataclass(kw_only=True, slots=True)
class Scaled:
    """The float inputs that a scaling step made, and the least and greatest value of each channel over the fixtures.

    An input with a declared `range` is left out: the door holds every request to that.
    """

    steps: Mapping[str, int]
    seen: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: Spec) -> Scaled:
        floats = [name for name, tensor in spec.model.inputs.items() if "float" in tensor.dtype and not tensor.range]
        found = {name: _scaling(spec.preprocess, name) for name in floats}
        return cls(steps={name: at for name, at in found.items() if at is not None})

    def add(self, arrays: Arrays) -> None:
        for name in self.steps:
            array = arrays[name]
            if array.size and np.isfinite(array).all():
                channels = _channels(array)
                least, most = self.seen.get(name, (np.array(np.inf), np.array(-np.inf)))
                self.seen[name] = (np.minimum(least, channels.min(1)), np.maximum(most, channels.max(1)))

    def warnings(self, steps: Sequence[StepUse]) -> Iterator[Diagnostic]:
        for name, (lows, highs) in self.seen.items():
            least, most = float(lows.min()), float(highs.max())
            far = max(abs(least), abs(most))
            # Twice scaled, a picture is all but constant in each channel, wherever its mean was moved.
            narrow = lows.size > 1 and float((highs - lows).max()) < LEAST
            if LEAST <= far <= MOST and not narrow:
                continue
            step = steps[self.steps[name]]
            likely = "a scale was never applied" if far > MOST else "a scale was applied twice"
            yield Diagnostic(
                code="E0457",
                message=f"after step `{step.id}` ({step.use}) the values of {name} lie from {least:.3g} to {most:.3g} over all "
                f"fixtures: it looks as if {likely}",
                key=f"preprocess.{self.steps[name]}",
                expected=f"a greatest value between {LEAST:g} and {MOST:g}, as models are trained on",
                hint=f"correct the step; or, where the model was trained so, declare model.inputs.{name}.range",
                severity="warning",
            )


def _channels(array: Array) -> Array:
    """[channels, values] of a batch of pictures with three channels; everything else is one channel."""
    axis = next((axis for axis in (1, 3) if array.ndim == 4 and array.shape[axis] == COLOURS), None)
    return array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, 0).reshape(COLOURS, -1)


def _scaling(steps: Sequence[StepUse], value: str) -> int | None:
    """The place of the last step that scaled what becomes this value; None where another kind of step made it."""
    for at in reversed(range(len(steps))):
        step = steps[at]
        if value not in step.outputs:
            continue
        if step.use in SCALING and not _does_nothing(step):
            return at
        if step.use not in MOVING:
            return None
        value = step.inputs[0]
    return None


def _does_nothing(step: StepUse) -> bool:
    """`scale` alone turns integers into floats: whoever writes it so means the values as they are."""
    return step.use == "scale" and step.params.get("factor", 1) == 1 and not step.params.get("offset")
