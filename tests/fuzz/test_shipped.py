"""What travels in bundles, against golden folders, pipelines, manifests, requests and frames of strangers."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dspec.targets.shipped import frames
from dspec.targets.shipped.errors import BundleError, GoldenError, RequestError
from dspec.targets.shipped.golden import Golden, read_golden, read_policy, write_golden
from dspec.targets.shipped.pipeline import Pipeline
from dspec.targets.shipped.request import check_request, read_request
from dspec.targets.shipped.runner import Bundle, read_manifest

FUZZ = settings.get_profile("dspec-fuzz")
Spoiler = Callable[..., bytes]

FIELDS: dict[str, Any] = {
    "text": {"type": "text", "max_bytes": 100}, "photo": {"type": "image", "max_bytes": 100},
    "x": {"type": "tensor", "dtype": "float32", "shape": [2, "n"], "max_bytes": 4000},
    "number": {"type": "number"}, "more": {"type": "json", "max_bytes": 1000},
}  # fmt: skip
REQUEST = {
    "text": "hello",
    "photo": {"base64": "aGVsbG8="},
    "x": [[1, 2.5], [3, 4]],
    "number": 5,
    "more": {"a": [1, None]},
}
PIPELINE = {
    "request": {"x": {"type": "tensor", "max_bytes": 4000, "dtype": "float32", "shape": [2]}},
    "before": [{"id": "scaled", "use": "scale", "params": {"factor": 2.0}, "in": ["x"], "out": ["z"]}],
    "inputs": {"z": {"dtype": "float32", "shape": ["batch", 2], "range": [-100, 100]}},
    "outputs": {"y": {"dtype": "float32", "shape": ["batch", 2], "range": None}},
    "dims": {"batch": {"min": 1, "max": 8, "multiple_of": 1}}, "batch": "batch",
    "after": [{"id": "back", "use": "scale", "params": {"factor": 0.5}, "in": ["y"], "out": ["w"]}],
    "response": {"w": "w"},
}  # fmt: skip
MANIFEST = {"engine": "none", "cores": 1, "options": {}, "model": {"path": "m"},
            "interface": {key: PIPELINE[key] for key in ("inputs", "outputs", "dims", "batch")}}  # fmt: skip


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz") / "golden"
    x = np.array([[1.0, float("nan")]], np.float32)
    item = Golden(id="a:1", request={"x": [1, 2]}, outputs={"y": x}, response={"w": x[0], "n": 3}, door={"z": x},
                  trace=[("scaled", "z", x[0])], files={"files/a.png": b"png"})  # fmt: skip
    write_golden(folder, [item, item], {"tolerance": {"y": {"atol": 1e-4}}, "max_failing": 0, "load": {}})
    return folder


def test_the_right_ones_are_read(golden: Path, tmp_path: Path) -> None:
    assert [item.id for item in read_golden(golden)] == ["a:1", "a:1"]
    assert read_policy(golden)["max_failing"] == 0
    assert read_golden(golden)[0].trace[0][2].tobytes() == np.array([1.0, float("nan")], np.float32).tobytes()
    assert read_request(FIELDS, REQUEST, tmp_path)["photo"] == b"hello"
    (tmp_path / "pipeline.json").write_text(json.dumps(PIPELINE))
    assert Pipeline.load(tmp_path).before({"x": np.ones(2, np.float32)})["z"].tolist() == [[2, 2]]


@pytest.mark.parametrize(
    "name", ["index.json", "policy.json", "0000/answer.json", "0000/request.json", "0000/trace.npz"]
)
@given(data=st.data())
@FUZZ
def test_any_golden_folder(golden: Path, spoiler: Spoiler, data: st.DataObject, name: str) -> None:
    path = golden / name
    right = path.read_bytes()
    path.write_bytes(_spoil_archive(data, right) if name.endswith(".npz") else spoiler(data, json.loads(right)))
    try:
        with suppress(GoldenError):
            read_golden(golden)
            read_policy(golden)
    finally:
        path.write_bytes(right)


def _spoil_archive(data: st.DataObject, right: bytes) -> bytes:
    """Bytes of the archive, or of an array in it, exchanged."""
    if data.draw(st.booleans()):
        at, new = data.draw(st.integers(0, len(right) - 1)), data.draw(st.binary(min_size=1, max_size=4))
        return right[:at] + new + right[at + len(new) :]
    content = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(right)) as old, zipfile.ZipFile(content, "w") as archive:
        for entry in old.infolist():
            array = old.read(entry)
            at, new = data.draw(st.integers(0, len(array) - 1)), data.draw(st.binary(min_size=1, max_size=4))
            archive.writestr(entry.filename, array[:at] + new + array[at + len(new) :])
    return content.getvalue()


def _npy(head: str, body: bytes) -> bytes:
    padded = head.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + body


def _archive(content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        archive.writestr("door.z.npy", content)
    return made.getvalue()


class _Shout:
    def __reduce__(self) -> Any:
        return pytest.fail, ("unpickled",)


ARRAYS = {
    "an object array": _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", pickle.dumps(_Shout())),
    "a shape beyond memory": _npy(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999), }", b"12345678"
    ),
    "a shape beyond integers": _npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {10**30}), }}", b""),
    "a negative shape": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -1), }", b"1234"),
    "records": _npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", b"1234"),
    "a header that calls": _npy("__import__('os').system('false')", b""),
    "a header of brackets": _npy("(" * 110, b""),
    "a pickle": pickle.dumps(_Shout()),
    "nothing": b"",
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_a_hostile_array_is_refused(golden: Path, tmp_path: Path, kind: str) -> None:
    shutil.copytree(golden, tmp_path / "golden")
    for content in (_archive(ARRAYS[kind]), _archive(ARRAYS[kind], zipfile.ZIP_LZMA), ARRAYS[kind]):
        (tmp_path / "golden/0000/trace.npz").write_bytes(content)
        with pytest.raises(GoldenError, match=r"0000/trace.npz can't be read: "):
            read_golden(tmp_path / "golden")
    (tmp_path / "x.npy").write_bytes(ARRAYS[kind])
    with pytest.raises(RequestError, match=r"which is no .npy array"):
        read_request({"x": {"type": "tensor"}}, {"x": {"npy": "x.npy"}}, tmp_path)
    (tmp_path / "x.npy").write_bytes(_archive(ARRAYS[kind]))
    with pytest.raises(RequestError, match=r"which is no .npy array"):
        read_request({"x": {"type": "tensor"}}, {"x": {"npy": "x.npy"}}, tmp_path)


def test_a_zip_bomb_is_not_unpacked(golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1:1000 is what deflate reaches; the limit, lowered here, counts what would come out."""
    monkeypatch.setattr("dspec.targets.shipped.golden.MAX_BYTES", 1 << 20)
    shutil.copytree(golden, tmp_path / "golden")
    zeros = _npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({1 << 21},), }}", bytes(1 << 21))
    (tmp_path / "golden/0000/trace.npz").write_bytes(_archive(zeros))
    assert len(_archive(zeros)) < 10_000
    with pytest.raises(GoldenError, match="more than 1048576 bytes once unpacked"):
        read_golden(tmp_path / "golden")


@pytest.mark.parametrize(
    "folder", ["..", "../golden", "0000/..", "/etc", ".", "", "0000/../../golden/0000", "\0", "link", "a" * 5000]
)
def test_a_golden_folder_leads_nowhere_else(golden: Path, tmp_path: Path, folder: str) -> None:
    copied = tmp_path / "golden"
    shutil.copytree(golden, copied)
    shutil.copytree(golden / "0000", tmp_path / "outside")
    for name in ("answer.json", "request.json", "trace.npz"):  # where `..` leads, everything is there
        shutil.copy(golden / "0000" / name, tmp_path / name)
    (copied / "link").symlink_to(tmp_path / "outside")
    (copied / "index.json").write_text(json.dumps({"fixtures": [{"id": "a", "folder": folder}]}))
    with pytest.raises(GoldenError, match=r"lies elsewhere|malformed|can't be read"):
        read_golden(copied)


@given(data=st.data())
@FUZZ
def test_any_request(tmp_path_factory: pytest.TempPathFactory, spoiler: Spoiler, data: st.DataObject) -> None:
    try:
        raw = json.loads(spoiler(data, REQUEST))
    except (ValueError, RecursionError):
        return
    with suppress(RequestError):
        assert set(read_request(FIELDS, raw, tmp_path_factory.getbasetemp())) == set(FIELDS)
    with suppress(RequestError):
        assert set(check_request(FIELDS, raw)) == set(FIELDS)


@pytest.mark.parametrize(
    "name", ["../secret", "/etc/passwd", "link", "loop", "a" * 5000, "\ud800", "\0", "", ".", "x/" * 3000, "pipe"]
)
@pytest.mark.parametrize("form", ["plain", "file", "npy"])
def test_a_file_of_a_request_stays_in_its_folder(tmp_path: Path, name: str, form: str) -> None:
    folder = tmp_path / "request"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "loop").symlink_to(folder / "loop")
    os.mkfifo(folder / "pipe")
    declared = {"f": {"type": "tensor" if form == "npy" else "image"}}
    with pytest.raises(RequestError, match=r"outside|not there|looked up|expected the path|nested lists"):
        read_request(declared, {"f": name if form == "plain" else {form: name}}, folder)


@given(data=st.data())
@FUZZ
def test_any_pipeline(tmp_path_factory: pytest.TempPathFactory, spoiler: Spoiler, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "pipeline"
    folder.mkdir(exist_ok=True)
    (folder / "pipeline.json").write_bytes(spoiler(data, PIPELINE))
    with suppress(BundleError):
        Pipeline.load(folder)


@pytest.mark.parametrize("file", ["../outside.py", "/etc/passwd", "link.py"])
def test_a_step_runs_no_file_from_outside(tmp_path: Path, file: str) -> None:
    folder = tmp_path / "pipeline"
    folder.mkdir()
    (tmp_path / "outside.py").write_text("raise SystemExit('this must not run')")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    step = {"id": "own", "use": "python", "params": {"file": file, "callable": "f"}, "in": ["x"], "out": ["z"]}
    (folder / "pipeline.json").write_text(json.dumps(PIPELINE | {"before": [step]}))
    with pytest.raises(BundleError, match=r"step own: ValueError: the file .* lies outside the pipeline's folder"):
        Pipeline.load(folder)


@given(data=st.data())
@FUZZ
def test_any_manifest_that_the_runner_reads(
    tmp_path_factory: pytest.TempPathFactory, spoiler: Spoiler, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "runner"
    (folder / "pipeline").mkdir(parents=True, exist_ok=True)
    (folder / "pipeline/pipeline.json").write_text(json.dumps(PIPELINE))
    (folder / "bundle.json").write_bytes(spoiler(data, MANIFEST))
    with pytest.raises(BundleError):  # at the latest: there is no engine `none`
        Bundle(folder)


def test_a_manifest_without_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "bundle.json")
    with pytest.raises(BundleError, match="it is no file"):
        read_manifest(tmp_path)


BODY = {"id": 1, "request": {"x": np.ones((2, 2), np.float32), "raw": b"abc", "$own": [1, None, "x"]}}


def _frame(header: bytes, rest: bytes = b"") -> bytes:
    return struct.pack(">I", len(header)) + header + rest


@given(data=st.data())
@FUZZ
def test_any_frame(spoiler: Spoiler, data: st.DataObject) -> None:
    right = b"".join(bytes(part) for part in frames.encode(BODY))
    size = 4 + struct.unpack(">I", right[:4])[0]
    match data.draw(st.sampled_from(["bytes", "header", "header"])):
        case "bytes":
            at = data.draw(st.integers(0, len(right) - 1))
            spoilt = right[:at] + data.draw(st.binary(max_size=5)) + right[at + data.draw(st.integers(0, 5)) :]
        case _:
            spoilt = _frame(spoiler(data, json.loads(right[4:size])), right[size:])
    with suppress(frames.FrameError, EOFError):
        frames.read(io.BytesIO(spoilt))


HEADERS = {
    "sizes that are floats": b'{"body": 1, "sizes": [1.5]}',
    "sizes that are not finite": b'{"body": 1, "sizes": [NaN]}',
    "sizes that are booleans": b'{"body": 1, "sizes": [true]}',
    "sizes that are no list": b'{"body": 1, "sizes": {}}',
    "nesting": b'{"body": ' + b"[" * 900 + b"]" * 900 + b', "sizes": []}',
    "deep nesting": b'{"body": ' + b"[" * 50000 + b"]" * 50000 + b', "sizes": []}',
    "objects": b'{"body": {"$array": [0, "O", [0]]}, "sizes": [0]}',
    "a shape beyond integers": b'{"body": {"$array": [0, "<f4", [0, 1000000000000000000000000000000]]}, "sizes": [0]}',
    "a buffer that is not there": b'{"body": {"$array": [3, "<f4", [1]]}, "sizes": []}',
    "an object that is none": b'{"body": {"$object": 5}, "sizes": []}',
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_hostile_frame_is_refused(kind: str) -> None:
    try:
        found = frames.read(io.BytesIO(_frame(HEADERS[kind])))
    except frames.FrameError:
        return
    assert kind == "nesting", f"{kind} gave {found!r}"  # may be within the interpreter's depth


def test_a_frame_takes_no_memory_that_it_only_announces() -> None:
    import tracemalloc

    stream = io.BytesIO(_frame(b'{"body": {"$bytes": 0}, "sizes": [2000000000]}', b"short"))
    tracemalloc.start()
    try:
        with pytest.raises(frames.FrameError, match="ended after 5 of 2000000000 bytes"):
            frames.read(stream)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_a_large_buffer_arrives_whole() -> None:
    array = np.arange(5_000_000, dtype=np.float64)  # 40 MB: beyond what is taken at once
    stream = io.BytesIO(b"".join(bytes(part) for part in frames.encode({"x": array, "y": b"tail"})))
    found = frames.read(stream)
    assert np.array_equal(found["x"], array)
    assert found["y"] == b"tail"
    found["x"][0] = 7.0  # a step may write to it
