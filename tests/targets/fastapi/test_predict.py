"""POST /predict and what surrounds it: answers, refusals, limits, headers, metrics, the document."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspec.compiler.drift import drift

JSON = "application/json"


def test_one_and_many(service: Any, hand: Callable[[str], Any]) -> None:
    texts = ["red green", "blue", "dark blue light red"]
    one = service.predict({"text": texts[0]})
    assert (one.status, one.headers["content-type"]) == (200, JSON)
    assert one.json["top"]["index"] == int(hand(texts[0])["embedding"].argmax())
    many = service.predict([{"text": text} for text in texts]).json
    assert [found["embedding"] for found in many] == [
        pytest.approx(hand(text)["embedding"][0].tolist(), rel=1e-5) for text in texts
    ]


def test_answers_do_not_depend_on_their_company(service: Any, hand: Callable[[str], Any]) -> None:
    words = ["red", "green", "blue", "dark", "light"]
    draw = np.random.default_rng(3)
    texts = [" ".join(draw.choice(words, draw.integers(1, 5))) for _ in range(200)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda text: service.predict({"text": text}), texts))
    for text, found in zip(texts, answers, strict=True):
        np.testing.assert_allclose(found.json["embedding"], hand(text)["embedding"][0], rtol=1e-5, atol=1e-6)
    sizes = service.ask("GET", "/metrics").body.decode()
    alone = next(
        line
        for line in sizes.splitlines()
        if line.startswith('dspec_batch_size_bucket{bundle="bbbbbbbbbbbb",le="1.0"}')
    )
    every = next(line for line in sizes.splitlines() if line.startswith("dspec_batch_size_count"))
    assert float(alone.split()[-1]) < float(every.split()[-1]), "no batch of several was run"


def test_numbers_that_are_not_finite_are_texts(service: Any) -> None:
    found = service.predict({"text": "nan"})
    assert found.status == 200
    assert found.json["embedding"][0] == "nan"
    assert all(math.isfinite(value) for value in found.json["embedding"][1:])


REFUSED: list[tuple[Any, int, str, str]] = [
    (b"nope", 400, "bad_json", "no JSON"),
    (b'{"text": NaN}', 400, "bad_json", "no JSON"),
    (b"\xff", 400, "bad_json", "no JSON"),
    (b"[" * 5000, 400, "bad_json", "no JSON"),
    ({}, 422, "invalid_request", "text: nothing; expected the field text (text)"),
    ({"text": 1}, 422, "invalid_request", "text: the number 1; expected a text"),
    ({"text": True}, 422, "invalid_request", "text: true; expected a text"),
    ({"text": None}, 422, "invalid_request", "text: null; expected a text"),
    ({"text": "a", "also": 1}, 422, "invalid_request", "also: an unknown field"),
    ({"text": "a" * 201}, 422, "invalid_request", "at most 200 bytes"),
    ([], 422, "invalid_request", "a list of 0 requests"),
    ([{"text": "a"}] * 65, 422, "invalid_request", "a list of 65 requests"),
    ([{"text": "a"}, {"text": 2}], 422, "invalid_request", "[1].text: the number 2"),
    ("text", 422, "invalid_request", "request: a text"),
    ({"text": "red green blue dark light red green"}, 200, "", ""),  # truncated to max_length
    ({"text": "fail"}, 500, "step_failed", "step probe failed on this request"),
]


@pytest.mark.parametrize(("body", "status", "code", "says"), REFUSED)
def test_what_is_refused(service: Any, body: Any, status: int, code: str, says: str) -> None:
    found = service.predict(body, **({"content_type": JSON} if isinstance(body, bytes) else {}))
    assert found.status == status
    assert b"Traceback" not in found.body
    assert b"/secret" not in found.body
    if code:
        assert found.json["error"]["code"] == code
        assert says in found.json["error"]["message"]


def test_a_step_that_fails_is_told_to_the_log(service: Any) -> None:
    service.predict({"text": "fail"})
    assert "/secret/path" in service.event("failed")["detail"]


def test_content_types(service: Any) -> None:
    found = service.predict(b"red", content_type="text/plain")
    assert (found.status, found.json["error"]["code"]) == (415, "unsupported_media_type")
    assert service.predict(b"{}", content_type=JSON, content_encoding="gzip").status == 415
    assert service.ask("GET", "/predict").status == 405
    assert service.ask("GET", "/predict").json["error"]["code"] == "method_not_allowed"
    assert service.ask("GET", "/nothing").json["error"] == {"code": "not_found", "message": "GET /nothing: not found"}
    assert service.ask("GET", "/v2/models/other").json == {
        "error": "no model other; there are toy and toy.model",
        "code": "unknown_model",
    }


def test_ids_digest_and_stages_in_every_answer(service: Any) -> None:
    for answer in (
        service.predict({"text": "red"}, x_request_id="abc-1"),
        service.predict({"text": 1}, x_request_id="abc-1"),
        service.ask("GET", "/v2/health/live", x_request_id="abc-1"),
        service.ask("GET", "/nothing", x_request_id="abc-1"),
    ):
        assert (answer.headers["x-request-id"], answer.headers["x-dspec-bundle"]) == ("abc-1", "b" * 12)
    odd = service.predict({"text": "red"}, x_request_id="a b\tc")
    assert odd.headers["x-request-id"] != "a b\tc"
    stages = [part.split(";")[0].strip() for part in odd.headers["server-timing"].split(",")]
    assert stages == ["queue", "preprocess", "model", "postprocess"]
    line = next(line for line in reversed(service.lines) if line["event"] == "worker_ready")
    assert line["bundle"] == "b" * 12
    assert line["warmed"]


def test_forms_files_and_numbers(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("mixed")).ready()
    image = bytes([1, 2, 3, 4, 250])
    request: dict[str, Any] = {
        "image": {"base64": base64.b64encode(image).decode()},
        "grid": [[1, 2], [3, 4]],
        "scale": 0.5,
    }
    expected = {"y": [21.0, 22.0, 23.0, 24.0]}
    assert service.predict(request).json == expected
    boundary = "x1y2"
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="image"; filename="a.bin"\r\n\r\n'.encode() + image,
        f'--{boundary}\r\nContent-Disposition: form-data; name="grid"\r\n\r\n[[1,2],[3,4]]'.encode(),
        f'--{boundary}\r\nContent-Disposition: form-data; name="scale"\r\n\r\n0.5'.encode(),
    ]
    form = b"\r\n".join((*parts, f"--{boundary}--\r\n".encode()))
    kind = f"multipart/form-data; boundary={boundary}"
    assert service.predict(form, content_type=kind).json == expected
    assert service.predict(form[:-20], content_type=kind).json["error"]["code"] == "bad_form"
    assert service.predict(form, content_type="multipart/form-data").json["error"]["code"] == "bad_form"
    assert service.predict(form.replace(b"0.5", b"NaN"), content_type=kind).status == 422
    for change, says in (
        ({"scale": "0.5"}, "scale: a text; expected a number"),
        ({"grid": [[1, 2], [3]]}, "grid: lists of different lengths"),
        ({"grid": [[1, 2]]}, "grid: shape [1, 2]"),
        ({"grid": [[1, True], [3, 4]]}, "grid: true or false among the values"),
        ({"image": "photo.jpg"}, "image: the file 'photo.jpg'"),
        ({"image": {"file": "/etc/passwd"}}, "image: the file '/etc/passwd'"),
        ({"image": {"base64": "%"}}, "image: text that is not base64"),
    ):
        found = service.predict(request | change)
        assert (found.status, says in found.json["error"]["message"]) == (422, True), found.body
    for text in (b"1e400", b"NaN", b"Infinity"):
        found = service.predict(json.dumps(request).encode().replace(b"0.5", text), content_type=JSON)
        assert found.status in (400, 422)
    tensor = {"name": "grid", "datatype": "FP32", "shape": [1, 2, 2], "data": [1, 2, 3, 4]}
    rest = [
        {"name": "image", "datatype": "BYTES", "shape": [1], "data": [request["image"]["base64"]]},
        {"name": "scale", "datatype": "FP64", "shape": [1], "data": [0.5]},
    ]
    found = service.ask("POST", "/v2/models/toy/infer", {"inputs": [tensor, *rest]})
    assert found.json["outputs"][0]["data"] == expected["y"]


def test_a_picture_by_itself_is_a_body(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("single")).ready()
    for kind in ("image/png", "application/octet-stream"):
        assert service.predict(bytes([1, 2, 3, 4]), content_type=kind).json == {"y": [2.0, 4.0, 6.0, 8.0]}
    assert service.predict(bytes(1_000_000), content_type="image/png").status == 200
    found = service.predict(bytes(1_000_001), content_type="image/png")
    assert (found.status, found.json["error"]["field"]) == (422, "image")


def test_bodies_up_to_the_limit(bundles: Callable[..., Path], start: Callable[..., Any]) -> None:
    service = start(bundles("single", max_body_bytes=1_500_000)).ready()
    text = base64.b64encode(bytes(1_000_000)).decode()
    assert service.predict({"image": {"base64": text}}).status == 200
    below = b" " * (1_500_000 - len(text) - 40) + json.dumps({"image": {"base64": text}}).encode()
    assert service.predict(below, content_type=JSON).status == 200
    for size in (1_500_001, *[30_000_000] * 5):  # more than the kernel holds for a server that does not read
        found = service.predict(bytes(size), content_type=JSON)
        assert (found.status, found.json["error"]["code"]) == (413, "too_large")
        assert found.headers["connection"] == "close"


def test_metrics_and_drift(service: Any, bundles: Callable[..., Path]) -> None:
    for _ in range(60):
        assert service.predict({"text": "red green"}).status == 200
    text = service.ask("GET", "/metrics").body.decode()
    for line in ("dspec_ready", "dspec_in_flight", "dspec_unproved", "dspec_workers"):
        assert f'{line}{{bundle="{"b" * 12}"}}' in text
    for stage in ("queue", "preprocess", "model", "postprocess", "total"):
        assert f'dspec_request_seconds_count{{bundle="{"b" * 12}",stage="{stage}"}}' in text
    found = {one.series: one for one in drift(bundles("texts"), [text], "b" * 12)}
    assert found["output.embedding"].values >= 240
    assert found["size.seq"].psi is not None


def _document(service: Any) -> Any:
    return service.ask("GET", "/openapi.json").json


def test_the_document_holds_a_real_request_and_its_answer(service: Any) -> None:
    found = _document(service)
    operation = found["paths"]["/predict"]["post"]
    example = operation["requestBody"]["content"][JSON]["example"]
    assert example == {"text": "red green"}
    answer = operation["responses"]["200"]["content"][JSON]["example"]
    np.testing.assert_allclose(service.predict(example).json["embedding"], answer["embedding"], rtol=1e-5)
    schema = {"$ref": "#/components/schemas/Request", "components": found["components"]}
    jsonschema.validate(example, schema)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "also", ""]), inner, max_size=3)
    ),
    max_leaves=5,
)


def test_any_json_gets_an_answer_that_the_document_describes(service: Any) -> None:
    found = _document(service)
    responses = found["paths"]["/predict"]["post"]["responses"]

    @settings(max_examples=60, deadline=None)
    @given(_VALUES)
    def answers(value: Any) -> None:
        answer = service.predict(json.dumps(value).encode(), content_type=JSON)
        described = responses[str(answer.status)]["content"][JSON]["schema"]
        jsonschema.validate(answer.json, {**described, "components": found["components"]})
        assert answer.status != 500 or "fail" in str(value)

    answers()


@pytest.mark.parametrize("path", ["/v2/models/toy/infer", "/v2/models/toy.model/infer"])
def test_any_inference_gets_an_answer_that_the_document_describes(service: Any, path: str) -> None:
    found = _document(service)
    responses = found["paths"]["/v2/models/{name}/infer"]["post"]["responses"]
    tensors = st.fixed_dictionaries(
        {
            "name": st.sampled_from(["text", "input_ids", "attention_mask"]) | st.text(max_size=3),
            "shape": st.lists(st.integers(-1, 3), max_size=3),
            "datatype": st.sampled_from(["BYTES", "INT64", "FP32", "BOOL", "X"]),
        },
        optional={
            "data": _VALUES,
            "parameters": st.dictionaries(st.just("binary_data_size"), st.integers(-1, 9), max_size=1),
        },
    )
    bodies = st.fixed_dictionaries(
        {}, optional={"inputs": st.lists(tensors, max_size=3) | _VALUES, "outputs": _VALUES, "id": _VALUES}
    )

    @settings(max_examples=60, deadline=None)
    @given(bodies)
    def answers(value: Any) -> None:
        answer = service.ask("POST", path, json.dumps(value).encode(), content_type=JSON)
        described = responses[str(answer.status)]["content"][JSON]["schema"]
        jsonschema.validate(answer.json, {**described, "components": found["components"]})
        assert answer.status != 500

    answers()
