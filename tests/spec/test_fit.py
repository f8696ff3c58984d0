"""Which values may enter the model."""

from __future__ import annotations

import pytest

from dspec.spec.fit import Held, castable, describe, item_shape, misfit
from dspec.spec.models import Dim, Tensor
from dspec.targets.shipped.step import Value

DIMS = {"batch": Dim(max=8), "seq": Dim(min=2, max=16, multiple_of=2)}
PICTURE = Tensor(dtype="float32", shape=("batch", 3, 224, 224))
IDS = Tensor(dtype="int64", shape=("batch", "seq"))
SINGLE = Tensor(dtype="float32", shape=(1, 8))


@pytest.mark.parametrize(
    ("value", "tensor"),
    [
        (Value("any"), PICTURE),
        (Value("tensor"), PICTURE),
        (Value("tensor", "float64", (3, 224, 224)), PICTURE),
        (Value("tensor", "uint8", (3, None, None)), PICTURE),
        (Value("tensor", "float32", (4, 3, 224, 224)), PICTURE),
        (Value("tensor", "int32", (None,)), IDS),
        (Value("tensor", "int32", (16,)), IDS),
        (Value("tensor", "float32", (8,)), SINGLE),
        (Value("tensor", "float32", (1, 8)), SINGLE),
        (Value("number", "float64", ()), Tensor(dtype="float32", shape=("batch",))),
    ],
)
def test_enters(value: Value, tensor: Tensor) -> None:
    assert misfit(Held(value=value, origin=""), tensor, DIMS) == ""


@pytest.mark.parametrize(
    ("value", "bound", "tensor", "reason"),
    [
        (Value("text"), None, IDS, "text is no tensor"),
        (Value("image bytes"), None, PICTURE, "image bytes is no tensor"),
        (Value("tensor", "float32", None), None, IDS, "float32 does not become int64 without loss"),
        (Value("tensor", "bool", None), None, PICTURE, "bool does not become float32 without loss"),
        (
            Value("tensor", None, (224, 224)),
            None,
            PICTURE,
            "it has 2 axes, one item of the input has 3 ([3, 224, 224])",
        ),
        (Value("tensor", None, (224, 224, 3)), None, PICTURE, "axis 0 is 224, the input's is 3"),
        (Value("tensor", None, (18,)), None, IDS, "axis 0 is 18, `seq` goes from 2 to 16 in steps of 2"),
        (Value("tensor", None, (3,)), None, IDS, "axis 0 is 3, `seq` goes from 2 to 16 in steps of 2"),
        (Value("tensor", None, (None,)), 32, IDS, "it may be up to 32 long, `seq` is at most 16"),
        (Value("tensor", None, (9, 3, 224, 224)), None, PICTURE, "axis 0 is 9, `batch` goes from 1 to 8"),
    ],
)
def test_does_not_enter(value: Value, bound: int | None, tensor: Tensor, reason: str) -> None:
    assert misfit(Held(value=value, origin="", bound=bound), tensor, DIMS) == reason


def test_an_item_has_no_batch_axis() -> None:
    assert item_shape(("seq", "batch", 3), DIMS) == ("seq", 3)
    assert item_shape(("batch", 3), {}) == ("batch", 3)


@pytest.mark.parametrize(
    ("dtype", "to", "fits"),
    [("float64", "float16", True), ("int64", "int32", True), ("uint8", "float32", True), ("float32", "bfloat16", True),
     ("float32", "int64", False), ("bool", "int64", False), ("int64", "bool", False), ("bool", "bool", True),
     ("bfloat16", "uint8", False)],
)  # fmt: skip
def test_casts_lose_nothing_by_kind(dtype: str, to: str, fits: bool) -> None:
    assert castable(dtype, to) is fits


def test_castable_agrees_with_the_door() -> None:
    np = pytest.importorskip("numpy")
    from dspec.targets.shipped.arrays import cast

    for dtype in ("bool", "uint8", "int32", "int64", "float16", "float32", "float64"):
        for to in ("bool", "uint8", "int8", "int64", "float16", "float64"):
            try:
                cast(np.ones(2, dtype), np.dtype(to))
                fits = True
            except ValueError:
                fits = False
            assert castable(dtype, to) is fits, (dtype, to)


def test_values_are_described() -> None:
    assert describe(Value("tensor", "float32", (3, None, "seq"))) == "tensor float32 [3, ?, seq]"
    assert describe(Value("text")) == "text"
