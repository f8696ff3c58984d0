"""The model's interface as far as the spec tells it: capture may know more outputs."""

from __future__ import annotations

from dspec.spec.models import BATCH, Spec, Tensor
from dspec.spec.records import Interface, Port


def interface_of(spec: Spec) -> Interface:
    """Names, dtypes and shapes that the spec declares."""
    model = spec.model
    return Interface(
        inputs={name: _port(tensor) for name, tensor in model.inputs.items()},
        outputs={name: _port(tensor) for name, tensor in model.outputs.items()},
        dims=dict(model.dims),
        batch=BATCH if BATCH in model.dims else None,
    )


def _port(tensor: Tensor) -> Port:
    return Port(dtype=tensor.dtype, shape=tensor.shape, range=tensor.range)
