"""Requests: JSON form to Python form, and everything that is refused, in words."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.request import check_request, read_request


def field(kind: str, **more: Any) -> dict[str, Any]:
    return {"x": {"type": kind, "max_bytes": 100, "dtype": None, "shape": None} | more}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "deep").mkdir(parents=True)
    (inside / "deep/a.bin").write_bytes(b"abc")
    (inside / "large.bin").write_bytes(b"0" * 101)
    (tmp_path / "outside.bin").write_bytes(b"secret")
    (inside / "link.bin").symlink_to(tmp_path / "outside.bin")
    np.save(inside / "a.npy", np.arange(3.0))
    np.save(inside / "objects.npy", np.array([{}], object), allow_pickle=True)
    return inside


F32 = {"dtype": "float32"}
READ = [
    (field("text"), "héllo", "héllo"),
    (field("number"), 3, 3.0),
    (field("json"), {"a": [1, None, "b"]}, {"a": [1, None, "b"]}),
    (field("image"), "deep/a.bin", b"abc"),
    (field("audio"), {"file": "deep/a.bin"}, b"abc"),
    (field("image"), {"base64": base64.b64encode(b"ab\0\0").decode()}, b"ab\0\0"),
    (field("tensor", **F32), [[1, 2.5]], np.array([[1, 2.5]], np.float32)),
    (field("tensor", dtype="int64", shape=["n", 2]), [[1, 2], [3, 4]], np.array([[1, 2], [3, 4]])),
    (field("tensor", dtype="bool"), [True, False], np.array([True, False])),
    (field("tensor", **F32), 2, np.array(2, np.float32)),
    (field("tensor"), [1, 2], np.array([1, 2])),
    (field("tensor"), [1.5], np.array([1.5], np.float32)),
    (field("tensor", **F32, shape=[0]), [], np.zeros(0, np.float32)),
    (field("tensor", **F32, max_bytes=1000), {"npy": "a.npy"}, np.arange(3, dtype=np.float32)),
]


@pytest.mark.parametrize(("fields", "raw", "wanted"), READ)
def test_what_is_read(folder: Path, fields: Any, raw: Any, wanted: Any) -> None:
    found = read_request(fields, {"x": raw, "expected": "a label, no field"}, folder)["x"]
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found == wanted


INT = {"dtype": "int32"}
REFUSED = [
    (field("text"), 3, "x: the number 3; expected a text"),
    (field("text"), None, "x: null; expected a text"),
    (field("text"), "ü" * 51, "x: 102 bytes; expected at most 100 bytes"),
    (field("text"), json.loads(r'"a\ud800"'), "x: half of a surrogate pair at character 1; expected Unicode"),
    (field("number"), True, "x: true; expected a number"),
    (field("number"), "1.5", "x: a text; expected a number"),
    (field("number"), json.loads("NaN"), "x: the number nan; expected a finite number"),
    (field("number"), json.loads("1e400"), "x: the number beyond all doubles; expected a finite number"),
    (field("number"), 10**400, "x: the number beyond all doubles; expected a finite number"),
    (field("json"), {"a": float("inf")}, "x: a value that is no JSON"),
    (field("json"), "0" * 100, "x: 102 bytes; expected at most 100 bytes"),
    (field("image"), 3, 'x: the number 3; expected a path, {"file": path} or {"base64": text}'),
    (field("image"), {"url": "x"}, "x: an object; expected a path"),
    (field("image"), "gone.bin", "x: the file 'gone.bin', which is not there; expected a file in"),
    (field("image"), "../outside.bin", "x: the file '../outside.bin', which lies outside the request's folder"),
    (field("image"), "/etc/passwd", "which lies outside"),
    (field("image"), "link.bin", "which lies outside"),
    (field("image"), "deep", "which is not there"),
    (field("image"), "a\0b", "x: a text; expected the path of a file"),
    (field("image"), "large.bin", "x: 101 bytes; expected at most 100 bytes"),
    (field("image"), {"base64": "a=b"}, "x: text that is not base64"),
    (field("image"), {"base64": "A" * 200}, "x: 148 bytes; expected at most 100 bytes"),
    (field("tensor", **F32), [1, True], "x: true or false among the values; expected float32 throughout"),
    (field("tensor", **F32), ["1.5"], "x: a text at (0); expected nested lists of numbers"),
    (field("tensor", **F32), [[1, None]], "x: null at (0, 1); expected nested lists of numbers"),
    (field("tensor", **F32), [1, json.loads("NaN")], "x: nan at (1); expected finite numbers"),
    (field("tensor", **F32), [[1, 2], [3]], "x: lists of different lengths; expected lists of one length"),
    (field("tensor", **F32), [1, [3]], "x: lists of different lengths"),
    (field("tensor", **F32), [1e39], "x: a value outside the range of float32; expected float32"),
    (field("tensor", **INT), [1.0], "x: numbers with a decimal point; expected whole numbers (int32)"),
    (field("tensor", **INT), [2**31], "x: the value 2147483648, outside the range of int32"),
    (field("tensor", **INT), [2**70], "x: numbers out of range"),
    (field("tensor", dtype="bool"), [1], "x: numbers; expected bool throughout"),
    (field("tensor", **F32, shape=["n", "n"]), [[1, 2]], "x: shape [1, 2]; expected shape [n, n]"),
    (field("tensor", **F32, shape=[2]), [[1, 2]], "x: shape [1, 2]; expected shape [2]"),
    (field("tensor", dtype="int64"), [0] * 13, "x: 104 bytes; expected at most 100 bytes"),
    (
        field("tensor", **INT, max_bytes=1000),
        {"npy": "a.npy"},
        "x: dtype float64, which does not become int32 without loss",
    ),
    (
        field("tensor", **F32, max_bytes=1000),
        {"npy": "objects.npy"},
        "x: the file 'objects.npy', which is no .npy array",
    ),
    (field("tensor", **F32), {"npy": "deep/a.bin"}, "x: the file 'deep/a.bin', which is no .npy array"),
    (field("tensor", **F32), {"npy": "a.npy"}, "x: 152 bytes; expected at most 100 bytes"),
]


@pytest.mark.parametrize(("fields", "raw", "message"), REFUSED)
def test_what_is_refused(folder: Path, fields: Any, raw: Any, message: str) -> None:
    with pytest.raises(RequestError) as raised:
        read_request(fields, {"x": raw}, folder)
    assert message in str(raised.value)


def test_fields() -> None:
    fields = field("text") | {"y": field("number")["x"]}
    with pytest.raises(RequestError, match="y: nothing; expected the field y"):
        read_request(fields, {"x": "a"}, None)
    with pytest.raises(RequestError, match="z: an unknown field; expected the fields x, y"):
        read_request(fields, {"x": "a", "y": 1, "z": 1}, None)
    with pytest.raises(RequestError, match="request: a list; expected an object with the fields x, y"):
        read_request(fields, [1], None)


def test_a_dtype_that_numpy_lacks_is_the_bundles_fault() -> None:
    with pytest.raises(BundleError, match="field x: dtype bfloat16 is not one that numpy can hold"):
        read_request(field("tensor", dtype="bfloat16"), {"x": [1.0]}, None)


def test_a_declared_field_called_expected_is_a_field() -> None:
    fields = {"expected": field("text")["x"]}
    assert read_request(fields, {"expected": "a"}, None) == {"expected": "a"}


def test_without_a_folder_no_file_is_read() -> None:
    with pytest.raises(RequestError, match="the file '/etc/passwd'; expected the content itself"):
        read_request(field("image"), {"x": {"file": "/etc/passwd"}}, None)


CHECKED = [
    (field("image"), b"abc", "", b"abc"),
    (field("image"), "photo.jpg", "x: a text; expected the bytes of an image", None),
    (field("tensor", **F32), np.array([1.0]), "", np.array([1], np.float32)),
    (field("tensor", **F32), [1.0], "x: a list; expected an array", None),
    (field("tensor", **F32), np.array(["a"]), "x: an array of dtype <U1; expected an array of numbers", None),
    (field("number"), np.float32(1.5), "", 1.5),
]


@pytest.mark.parametrize(("fields", "value", "message", "wanted"), CHECKED)
def test_python_form(fields: Any, value: Any, message: str, wanted: Any) -> None:
    if not message:
        found = check_request(fields, {"x": value})["x"]
        assert found.dtype == wanted.dtype if isinstance(wanted, np.ndarray) else found == wanted
        return
    with pytest.raises(RequestError) as raised:
        check_request(fields, {"x": value})
    assert message in str(raised.value)
