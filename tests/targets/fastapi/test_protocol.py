"""The Open Inference Protocol, spoken by a client that knows nothing of dspec."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # of gevent's, on which the client stands


@pytest.fixture
def client(service: Any) -> Iterator[Any]:
    import tritonclient.http as triton

    with triton.InferenceServerClient(f"127.0.0.1:{service.port}") as found:
        yield found


def test_health_and_metadata(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("toy")
    assert client.is_model_ready("toy.model", "1")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    found = client.get_model_metadata("toy")
    assert found["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert {"name": "embedding", "datatype": "FP32", "shape": [-1, 4]} in found["outputs"]
    found = client.get_model_metadata("toy.model", "1")
    assert {"name": "input_ids", "datatype": "INT64", "shape": [-1, -1]} in found["inputs"]
    assert {"name": "hidden", "datatype": "FP32", "shape": [-1, -1, 4]} in found["outputs"]


@pytest.mark.parametrize("binary", [True, False])
def test_requests_by_row(client: Any, hand: Callable[[str], Any], binary: bool) -> None:
    import tritonclient.http as triton

    texts = ["red green", "dark blue light red", "blue"]
    given = triton.InferInput("text", [3], "BYTES")
    given.set_data_from_numpy(np.array([text.encode() for text in texts], object), binary_data=binary)
    wanted = [triton.InferRequestedOutput(name, binary_data=binary) for name in ("top", "embedding")]
    found = client.infer("toy", [given], outputs=wanted, request_id="seven")
    assert found.get_response()["id"] == "seven"
    for row, text in enumerate(texts):
        embedding = hand(text)["embedding"][0]
        np.testing.assert_allclose(found.as_numpy("embedding")[row], embedding, rtol=1e-5, atol=1e-6)
        assert json.loads(found.as_numpy("top")[row])["index"] == embedding.argmax()


@pytest.mark.parametrize("binary", [True, False])
def test_tensors(client: Any, hand: Callable[[str], Any], binary: bool) -> None:
    import tritonclient.http as triton

    expected = hand("dark blue")
    inputs = [triton.InferInput(name, [1, 4], "INT64") for name in ("input_ids", "attention_mask")]
    for one in inputs:
        one.set_data_from_numpy(expected[one.name()], binary_data=binary)
    found = client.infer("toy.model", inputs)
    for name in ("embedding", "hidden"):
        np.testing.assert_allclose(found.as_numpy(name), expected[name], rtol=1e-5, atol=1e-6)


def test_errors_are_texts_that_the_client_shows(client: Any) -> None:
    import tritonclient.http as triton

    given = triton.InferInput("input_ids", [1, 9], "INT64")
    given.set_data_from_numpy(np.ones((1, 9), np.int64))
    with pytest.raises(
        triton.InferenceServerException, match="attention_mask: nothing; expected the input attention_mask"
    ):
        client.infer("toy.model", [given])
    with pytest.raises(triton.InferenceServerException, match=r"no model other; there are toy, toy.model"):
        client.infer("other", [given])
    with pytest.raises(triton.InferenceServerException, match="no model toy version 9"):
        client.get_model_metadata("toy", "9")


CASES: list[tuple[str, Any, int, str]] = [
    (
        "toy",
        {"inputs": [{"name": "text", "shape": [1], "datatype": {}, "data": ["a"]}]},
        400,
        "datatype {}; expected one of",
    ),
    ("toy", {"inputs": [{"name": "text", "shape": [1], "datatype": None, "data": ["a"]}]}, 400, "datatype None"),
    ("toy", {"inputs": []}, 422, "inputs of [] rows"),
    ("toy", {}, 400, "no list `inputs`"),
    (
        "toy",
        {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a"]}]},
        400,
        "1 elements for shape [2]",
    ),
    ("toy", {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [1]}]}, 400, "no text"),
    (
        "toy",
        {"inputs": [{"name": "text", "shape": [1], "datatype": "INT64", "data": [1]}]},
        422,
        "no text; expected BYTES",
    ),
    ("toy", {"inputs": [{"name": "other", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}, 422, "an unknown input"),
    ("toy", {"inputs": [{"name": "text", "shape": [1], "datatype": "TEXT", "data": ["a"]}]}, 400, "datatype 'TEXT'"),
    ("toy", {"inputs": [{"name": "text", "shape": [-1], "datatype": "BYTES", "data": ["a"]}]}, 400, "shape [-1]"),
    ("toy", {"inputs": [{"name": "text", "shape": [0], "datatype": "BYTES", "data": []}]}, 422, "rows"),
    (
        "toy.model",
        {"inputs": [{"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [1, 1.5]}]},
        400,
        "the value 1.5",
    ),
    (
        "toy.model",
        {"inputs": [{"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [1, True]}]},
        400,
        "True",
    ),
    (
        "toy.model",
        {"inputs": [{"name": "x", "shape": [1], "datatype": "INT8", "data": [300]}]},
        400,
        "outside the range of INT8",
    ),
    (
        "toy.model",
        {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1e300]}]},
        400,
        "outside the range of FP32",
    ),
    (
        "toy.model",
        {"inputs": [{"name": "x", "shape": [1], "datatype": "INT64", "parameters": {"binary_data_size": 8}}]},
        400,
        "0 bytes are left",
    ),
]


@pytest.mark.parametrize(("model", "body", "status", "says"), CASES)
def test_what_is_refused(service: Any, model: str, body: Any, status: int, says: str) -> None:
    found = service.ask("POST", f"/v2/models/{model}/infer", body)
    assert (found.status, found.headers["content-type"]) == (status, "application/json")
    assert says in found.json["error"]
    assert found.json["code"]


def test_the_size_of_the_json_part(service: Any) -> None:
    for size in ("9999", "-1", "x"):
        found = service.ask("POST", "/v2/models/toy/infer", b"{}", inference_header_content_length=size)
        assert (found.status, found.json["code"]) == (400, "bad_request")


def test_the_door_is_shown_only_where_it_was_allowed(service: Any) -> None:
    body = {
        "inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["red"]}],
        "outputs": [{"name": "door.input_ids"}],
    }
    found = service.ask("POST", "/v2/models/toy/infer", body)
    assert (found.status, found.json["error"]) == (422, "door.input_ids: an unknown output; there are embedding, top")
