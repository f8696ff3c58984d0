"""The door and the pipeline around the model."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped.door import Door
from dspec.targets.shipped.errors import BundleError, MissingLibrary, RequestError, StepError
from dspec.targets.shipped.pipeline import Pipeline, Trace, to_json

Amend = Callable[[Path, Any], None]
DIMS = {"batch": {"min": 1, "max": 8}, "time": {"min": 2, "max": 6, "multiple_of": 2}}


def door(shape: list[Any], dtype: str = "float32", **more: Any) -> Door:
    return Door({"a": {"dtype": dtype, "shape": shape, "range": None} | more}, DIMS, "batch")


ENTERS = [
    (["batch", "time"], np.zeros(4, np.float32), (1, 4)),
    (["time", "batch", 3], np.zeros((4, 3), np.float32), (4, 1, 3)),  # the batch axis need not be the first
    (["batch", "time"], np.zeros((3, 4), np.float32), (3, 4)),
    ([1, 3], np.zeros(3, np.float32), (1, 3)),
    ([3], np.zeros(3, np.float32), (3,)),
    (["batch"], 2.5, (1,)),
    (["batch", 2], [1.0, 2.0], (1, 2)),
    (["batch", 2], np.zeros((2, 2), np.float64)[:, 0], (1, 2)),
    (["batch", 2], np.arange(2), (1, 2)),
]


@pytest.mark.parametrize(("shape", "value", "wanted"), ENTERS)
def test_a_value_of_one_item_enters(shape: list[Any], value: Any, wanted: tuple[int, ...]) -> None:
    tensor = door(shape).enter({"a": value}, {"a": "field"})["a"]
    assert (tensor.shape, tensor.dtype) == (wanted, np.float32)
    assert tensor.flags.c_contiguous


STAYS_OUT = [
    (["batch", "time"], np.zeros((9, 4)), {}, "axis 0 of input a is 9; expected at most 8 (batch)"),
    (["batch", "time"], np.zeros((0, 4)), {}, "axis 0 of input a is 0; expected at least 1 (batch)"),
    (["batch", "time"], np.zeros(8), {}, "axis 1 of input a is 8; expected at most 6 (time)"),
    (["batch", "time"], np.zeros(3), {}, "axis 1 of input a is 3; expected a multiple of 2 (time)"),
    (["time", "time"], np.zeros((2, 4)), {}, "axis 1 of input a is 4; expected 2, as time is in a"),
    (["batch", 5], np.zeros(4), {}, "axis 1 of input a is 4; expected 5 (shape [batch, 5])"),
    (["batch", 5], np.zeros((1, 1, 5)), {}, "input a of shape [1, 1, 5]; expected shape [batch, 5]"),
    (["batch", 2], np.zeros(2), {"dtype": "int64"}, "input a has dtype float64, which does not become int64"),
    (["batch", 2], np.zeros(2, bool), {}, "input a has dtype bool, which does not stand for float32"),
    (["batch", 2], np.array([0, 300]), {"dtype": "uint8"}, "input a has the value 300, outside the range of uint8"),
    (["batch", 2], np.array([0, 12]), {"dtype": "int64", "range": [0, 9]}, "a holds 12; expected values from 0 to 9"),
    (["batch", 2], np.array([-1, 3]), {"dtype": "int64", "range": [0, 9]}, "a holds -1; expected values from 0"),
    (["batch", 2], np.array([0, np.nan]), {"range": [0, 9]}, "input a holds nan; expected values from 0 to 9"),
    (["batch", 2], {"no": "array"}, {}, "input a is no array of numbers; expected float32"),
]


@pytest.mark.parametrize(("shape", "value", "more", "message"), STAYS_OUT)
def test_what_may_not_enter(shape: list[Any], value: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        door(shape, **more).enter({"a": value}, {"a": "field"})
    assert str(raised.value).startswith("field: ")
    assert message in str(raised.value)


def test_tensors_are_checked_as_they_are() -> None:
    strict = door(["batch", "time"])
    for tensors, message in (
        ({}, "a: nothing; expected the input a"),
        ({"a": np.zeros((1, 2), np.float32), "b": 1}, "b: an unknown input; expected the inputs a"),
        ({"a": np.zeros((1, 2))}, "a: the tensor of dtype float64; expected float32"),
        ({"a": [[1.0, 2.0]]}, "a: the tensor of dtype list; expected float32"),
        ({"a": np.zeros((2, 32), np.float32)}, "a: axis 1 of the tensor is 32; expected at most 6 (time)"),
    ):
        with pytest.raises(RequestError) as raised:
            strict.check(tensors)
        assert message in str(raised.value)


def test_dims_agree_across_inputs() -> None:
    port = {"dtype": "float32", "shape": ["batch", "time"], "range": None}
    both = Door({"a": port, "b": port}, DIMS, "batch")
    with pytest.raises(RequestError, match="g: axis 1 of input b is 4; expected 2, as time is in a"):
        both.enter({"a": np.zeros(2), "b": np.zeros(4)}, {"a": "f", "b": "g"})


def test_trace_holds_every_value_in_order_and_later_changes_do_not_reach_it(toy: Path) -> None:
    pipeline = Pipeline.load(toy / "pipeline")
    trace: Trace = []
    seconds: dict[str, float] = {}
    door = pipeline.before({"text": "red"}, trace, seconds)
    door["input_ids"][:] = 0
    assert [(step, name, value.tolist()) for step, name, value in trace] == [
        ("tokens", "input_ids", [2, 4, 3]),
        ("tokens", "attention_mask", [1, 1, 1]),
    ]
    assert set(seconds) == {"tokens"}


def test_after_takes_the_batch_axis_off(toy: Path, expected: Any) -> None:
    outputs = expected("red")[1]
    before = outputs["embedding"].copy()
    response = Pipeline.load(toy / "pipeline").after(outputs)
    np.testing.assert_array_equal(response["embedding"], before[0])
    assert response["top"]["index"] == before.argmax()
    with pytest.raises(BundleError, match="output embedding holds 2 items along axis 0 for one request"):
        Pipeline.load(toy / "pipeline").after({"embedding": np.zeros((2, 4), np.float32)})


def test_to_json() -> None:
    value = {"a": np.array([[1, 2]]), "b": np.array([0.1, np.nan, -np.inf], np.float32), "c": np.float32(0.1)}
    assert to_json(value | {"d": (True, None, float("inf"), np.bool_(True))}) == {
        "a": [[1, 2]],
        "b": [0.10000000149011612, "nan", "-inf"],
        "c": 0.10000000149011612,
        "d": [True, None, "inf", True],
    }
    json.dumps(to_json(value), allow_nan=False)
    with pytest.raises(BundleError, match="a response holds a set, which is no JSON"):
        to_json({"a": {1}})


def post(use: str = "python", reads: str = "embedding", **changes: Any) -> dict[str, Any]:
    params = {"file": "code/post.py", "callable": "label"}
    return {"id": "label", "use": use, "params": params, "in": [reads], "out": ["top"]} | changes


MALFORMED: list[tuple[dict[str, Any], str]] = [
    (post(reads="nothing"), "step label reads nothing, which nothing gives"),
    (post(params={"file": "code/gone.py", "callable": "label"}), "step label: FileNotFoundError"),
    (post(params={"file": "code/post.py", "callable": "f"}), r"step label: ValueError: post\.py has no function 'f'"),
    (post("scale", params={"factr": 2.0}), "step label: TypeError.*factr"),
]


@pytest.mark.parametrize(("step", "message"), MALFORMED)
def test_a_pipeline_that_can_not_run_is_an_error_when_loaded(
    own_toy: Path, amend: Amend, step: dict[str, Any], message: str
) -> None:
    amend(own_toy / "pipeline/pipeline.json", {"after": [step]})
    with pytest.raises(BundleError, match=message):
        Pipeline.load(own_toy / "pipeline")


def test_a_library_that_is_missing(own_toy: Path) -> None:
    (own_toy / "pipeline/code/post.py").write_text("import no_such_library")
    with pytest.raises(MissingLibrary, match="step label needs no_such_library, which is not installed"):
        Pipeline.load(own_toy / "pipeline")


def test_an_unreadable_pipeline(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"pipeline\.json: FileNotFoundError"):
        Pipeline.load(tmp_path)
    (tmp_path / "pipeline.json").write_text('{"request": {}}')
    with pytest.raises(BundleError, match=r"pipeline\.json: KeyError: 'inputs'"):
        Pipeline.load(tmp_path)


FAILS: list[tuple[str, list[str], type[Exception], str]] = [
    ("return 1 / 0", ["top"], StepError, "step label: ZeroDivisionError: division by zero"),
    ("return 1", ["top", "other"], StepError, "step label: gave one int where top, other are expected"),
    ("return 1, 2, 3", ["top", "other"], StepError, "step label: gave 3 values where top, other are expected"),
    ("raise ValueError('too dark')", ["top"], RequestError, r"embedding: too dark; .* \(step label\)"),
]


@pytest.mark.parametrize(("body", "out", "kind", "message"), FAILS)
def test_a_failing_step_is_named(
    own_toy: Path, amend: Amend, expected: Any, body: str, out: list[str], kind: type[Exception], message: str
) -> None:
    (own_toy / "pipeline/code/post.py").write_text(f"def label(embedding):\n    {body}\n")
    amend(own_toy / "pipeline/pipeline.json", {"after": [post(out=out)]})
    with pytest.raises(kind, match=message):
        Pipeline.load(own_toy / "pipeline").after(expected("red")[1])


def test_a_refusal_by_a_step_names_the_requests_field(own_toy: Path, amend: Amend) -> None:
    path = own_toy / "pipeline/pipeline.json"
    before = json.loads(path.read_text())["before"]
    before[0]["params"] |= {"truncation": "error"}
    amend(path, {"before": before})
    with pytest.raises(RequestError) as raised:
        Pipeline.load(own_toy / "pipeline").before({"text": "red " * 9})
    assert str(raised.value) == "text: a text of 11 tokens; expected at most 6 (step tokens)"


def test_several_threads(toy: Path) -> None:
    pipeline = Pipeline.load(toy / "pipeline")
    found: list[Any] = []

    def work() -> None:
        found.extend(pipeline.before({"text": "red green"})["input_ids"].tolist() for _ in range(200))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[[2, 4, 5, 3]]] * 800


def test_the_pipeline_costs_little_more_than_its_calls(toy: Path) -> None:
    from tokenizers import Tokenizer

    pipeline = Pipeline.load(toy / "pipeline")
    tokenizer = Tokenizer.from_file(str(toy / "pipeline/assets/tokens/tokenizer.json"))
    tokenizer.no_padding()

    def by_hand() -> Any:
        found = tokenizer.encode("red green")
        return [np.array([found.ids], np.int64), np.array([found.attention_mask], np.int64)]

    def took(call: Callable[[], Any]) -> float:
        times = []
        for _ in range(300):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        return sorted(times)[30]

    assert took(lambda: pipeline.before({"text": "red green"})) < took(by_hand) + 0.0005
