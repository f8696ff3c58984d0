"""Steps over tables: the rules for missing, foreign and odd cells, against numpy by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.step import ANY, IMAGE, JSON, NUMBER, TENSOR, TEXT, Value

AGE = ("age", "income")
COLORS = {"color": ("red", "blue"), "grade": (1, 2, True)}
VECTOR = Value(TENSOR, "float64", (2,))


def step(name: str, **params: Any) -> Any:
    return steps.load(name)(**params)


COLUMNS: list[tuple[dict[str, Any], Any, list[float]]] = [
    ({}, {"income": 2.5, "age": 1}, [1, 2.5]),
    ({"fill": {"income": 7.5}}, {"age": 1}, [1, 7.5]),
    ({"fill": {"income": 7.5}}, {"age": 1, "income": None}, [1, 7.5]),
    ({"fill": {"income": 7.5}}, {"age": 1, "income": 0}, [1, 0]),
    ({"missing": "nan"}, {"age": None}, [math.nan, math.nan]),
    ({"missing": "nan", "fill": {"age": 3}}, {}, [3, math.nan]),
    ({"booleans": "number"}, {"age": True, "income": False}, [1, 0]),
    ({"others": ("color",)}, {"age": 1, "income": 2, "color": "red"}, [1, 2]),
    ({}, {"age": 1e308, "income": 1e308}, [1e308, 1e308]),  # their sum is no double
    ({}, {"age": 16777217, "income": 1.7e9}, [16777217, 1.7e9]),  # float32 would round both
]


@pytest.mark.parametrize(("params", "row", "vector"), COLUMNS)
def test_columns(params: dict[str, Any], row: Any, vector: list[float]) -> None:
    found = step("columns", names=AGE, **params).open()(row)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, vector)


def test_columns_from_number_fields() -> None:
    assert step("columns", names=AGE).open()(1.0, 2.0).tolist() == [1, 2]


REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    ({}, {"age": 1}, "nothing in column income; expected a finite number"),
    ({}, {"age": 1, "income": None}, "nothing in column income"),
    ({}, {"age": 1, "income": "2.5"}, "a text in column income; expected a finite number"),
    ({}, {"age": 1, "income": True}, "true in column income"),
    ({}, {"age": 1, "income": [1]}, "a list in column income"),
    ({"missing": "nan"}, {"age": 1, "income": math.nan}, "the number nan in column income"),
    ({}, {"age": math.inf, "income": -math.inf}, "the number inf in column age"),
    ({}, {"age": 1, "income": 10**400}, "a number beyond all doubles in column income"),
    ({}, {"age": 1, "income": 10**5000}, "a number beyond all doubles in column income"),
    ({"fill": {"income": 0}}, {"age": 1, "incme": 5}, "an unknown column incme; expected the columns age, income"),
    ({}, {"age": 1, "income": 1, "x" * 500: 1}, "an unknown column x{40}…; expected"),
    ({}, [1, 2], "a list; expected an object with the columns age, income"),
    ({}, None, "null; expected an object with the columns"),
]


@pytest.mark.parametrize(("params", "row", "message"), REFUSED)
def test_columns_refuse(params: dict[str, Any], row: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        step("columns", names=AGE, **params).open()(row)


def test_a_number_that_python_does_not_print() -> None:
    with pytest.raises(RequestError, match="a number beyond all doubles; expected an object"):
        step("columns", names=AGE).open()(10**5000)


CATEGORIES: list[tuple[dict[str, Any], Any, list[int]]] = [
    ({}, {"color": "blue", "grade": 2}, [0, 1, 0, 1, 0]),
    ({}, {"color": "red", "grade": True}, [1, 0, 0, 0, 1]),
    ({}, {"color": "red", "grade": 1.0, "more": [1]}, [1, 0, 1, 0, 0]),
    ({"unknown": "other"}, {"color": "green", "grade": "1"}, [0, 0, 1, 0, 0, 0, 1]),
    ({"unknown": "zeros"}, {"color": "green", "grade": False}, [0, 0, 0, 0, 0]),
    ({"unknown": "other", "missing": "unknown"}, {"grade": None}, [0, 0, 1, 0, 0, 0, 1]),
    ({"encoding": "index"}, {"color": "blue", "grade": 1}, [1, 0]),
    ({"encoding": "index", "unknown": "other"}, {"color": "x", "grade": 10**5000}, [2, 3]),
]


@pytest.mark.parametrize(("params", "row", "found"), CATEGORIES)
def test_categories(params: dict[str, Any], row: Any, found: list[int]) -> None:
    encode = step("categories", values=COLORS, **params)
    (value,) = encode.flow(Value(JSON))
    vector = encode.open()(row)
    assert vector.tolist() == found
    assert (vector.dtype, vector.shape) == (value.dtype, value.shape)
    assert value.range[0] <= vector.min() <= vector.max() <= value.range[1]


def test_categories_of_a_text_field() -> None:
    one = step("categories", values={"color": ("red", "blue")})
    assert one.flow(Value(TEXT)) == (Value(TENSOR, "float32", (2,), (0, 1)),)
    assert one.open()("blue").tolist() == [0, 1]


CATEGORIES_REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    ({}, {"color": "green", "grade": 1}, "a text in column color; expected one of red, blue"),
    ({}, {"color": "red"}, "nothing in column grade; expected one of 1, 2, True"),
    ({"unknown": "other"}, {"color": None, "grade": 1}, "nothing in column color"),
    ({"unknown": "other"}, {"color": ["red"], "grade": 1}, "a list in column color"),
    ({"unknown": "zeros"}, {"color": math.nan, "grade": 1}, "the number nan in column color"),
    ({}, "red", "a text; expected an object with the columns color, grade"),
]


@pytest.mark.parametrize(("params", "row", "message"), CATEGORIES_REFUSED)
def test_categories_refuse(params: dict[str, Any], row: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        step("categories", values=COLORS, **params).open()(row)


def test_standardize_rounds_once() -> None:
    seconds = np.array([1_700_000_001.0, 5.0])
    found = step("standardize", mean=(1_700_000_000.0, 1.0), std=(1.0, 2.0)).open()(seconds)
    assert found.dtype == np.float32
    assert found.tolist() == [1, 2]  # in float32 the first would be 0: it can't tell seconds apart
    assert np.isnan(step("standardize", mean=0.0, std=1.0).open()(np.array([math.nan]))).all()
    with pytest.raises(RequestError, match=r"the number 1e\+300 after scaling; expected numbers that float32 can hold"):
        step("standardize", mean=0.0, std=1.0).open()(np.array([1e300]))
    with pytest.raises(RequestError, match=r"shape \[3\]; expected 2 columns"):
        step("standardize", mean=(0.0, 1.0), std=1.0).open()(np.zeros(3))


def test_clip() -> None:
    found = step("clip", low=0.0, high=(1.0, 2.0)).open()(np.array([[-1, 5], [math.nan, 1]], np.float32))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[0, 2], [math.nan, 1]])
    assert step("clip", low=1.0).open()(np.array([0.0, 3.0])).tolist() == [1, 3]
    with pytest.raises(RequestError, match="an array of dtype int64; expected floats"):
        step("clip", low=0.0).open()(np.array([1]))
    with pytest.raises(RequestError, match=r"shape \[2\]; expected 3 columns"):
        step("clip", low=(0.0, 0.0, 0.0)).open()(np.zeros(2))


def test_concat_keeps_the_order() -> None:
    found = step("concat").open()(np.array([1, 2], np.float32), np.array([3.0]))
    assert (found.dtype, found.tolist()) == (np.float64, [1, 2, 3])
    with pytest.raises(RequestError, match=r"shape \[1, 1\]; expected vectors"):
        step("concat").open()(np.zeros(2), np.zeros((1, 1)))


FLOWS: list[tuple[str, dict[str, Any], tuple[Value, ...], Value]] = [
    ("columns", {"names": AGE}, (Value(JSON),), Value(TENSOR, "float64", (2,))),
    ("columns", {"names": AGE}, (Value(NUMBER), Value(ANY)), Value(TENSOR, "float64", (2,))),
    ("standardize", {"mean": (1.0, 2.0), "std": 2.0}, (VECTOR,), Value(TENSOR, "float32", (2,))),
    ("standardize", {"mean": (1.0, 3.0), "std": 2.0}, (VECTOR._replace(range=(1, 5)),),
     Value(TENSOR, "float32", (2,), (-1, 2))),
    ("clip", {"low": 0.0, "high": (1.0, 3.0)}, (VECTOR,), Value(TENSOR, "float64", (2,), (0, 3))),
    ("clip", {"low": 0.0}, (VECTOR,), VECTOR),
    ("clip", {"low": 0.0}, (VECTOR._replace(range=(-5, 5)),), VECTOR._replace(range=(0, 5))),
    ("concat", {}, (Value(TENSOR, "float32", (2,), (0, 1)), Value(TENSOR, "float32", (3,), (-1, 0))),
     Value(TENSOR, "float32", (5,), (-1, 1))),
    ("concat", {}, (Value(TENSOR, "float32", (2,)), VECTOR), Value(TENSOR, "float64", (4,))),
    ("concat", {}, (Value(TENSOR, "int64", (None,)), Value(ANY)), Value(TENSOR, None, (None,))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "given", "found"), FLOWS)
def test_types(name: str, params: dict[str, Any], given: tuple[Value, ...], found: Value) -> None:
    assert step(name, **params).flow(*given) == (found,)


MISFITS: list[tuple[str, dict[str, Any], tuple[Value, ...], str]] = [
    ("columns", {"names": AGE}, (Value(NUMBER),), "one JSON object, or for 2 columns as many values of kind number, not"),
    ("columns", {"names": AGE}, (Value(TEXT), Value(NUMBER)), "not text"),
    ("columns", {"names": ("a", "a")}, (Value(JSON),), "each column is named once"),
    ("columns", {"names": AGE, "fill": {"agee": 1.0}}, (Value(JSON),), "fill has agee, which is not among the names"),
    ("categories", {"values": COLORS}, (Value(IMAGE),), "text or number, not image"),
    ("categories", {"values": {"c": ("a", "a")}}, (Value(JSON),), "c: each value is listed once"),
    ("categories", {"values": {}}, (Value(JSON),), "there is at least one"),
    ("categories", {"values": COLORS, "encoding": "index", "unknown": "zeros"}, (Value(JSON),), "zeros is for one_hot"),
    ("categories", {"values": COLORS, "missing": "unknown"}, (Value(JSON),), "missing: unknown needs unknown: other"),
    ("standardize", {"mean": 0.0, "std": 0.0}, (VECTOR,), "std above 0"),
    ("standardize", {"mean": (1.0, 2.0, 3.0), "std": 1.0}, (VECTOR,), "mean has 3 numbers for 2 columns"),
    ("standardize", {"mean": (1.0, 2.0), "std": (1.0,)}, (VECTOR,), "mean has 2 numbers and std has 1 numbers"),
    ("standardize", {"mean": 1.0, "std": 1.0}, (Value(JSON),), "takes tensor, not json"),
    ("clip", {}, (VECTOR,), "takes low, high or both"),
    ("clip", {"low": 2.0, "high": 1.0}, (VECTOR,), "low is above high"),
    ("clip", {"low": 2.0}, (Value(TENSOR, "int64", (2,)),), "takes floats, not int64"),
    ("concat", {}, (VECTOR,), "takes two vectors or more"),
    ("concat", {}, (VECTOR, Value(TENSOR, "float64", (2, 2))), r"takes vectors, not shape \[2, 2\]"),
    ("concat", {}, (VECTOR, Value(TENSOR, "int64", (2,))), "one dtype, not float64 and int64"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "params", "given", "message"), MISFITS)
def test_misfits(name: str, params: dict[str, Any], given: tuple[Value, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        step(name, **params).flow(*given)
