"""The golden folder: raw requests, the value after each step, the answers and the tolerances.

    policy.json           {"tolerance": {output: policy}, "max_failing": 0, "load": {…}}
    index.json            {"fixtures": [{"id", "folder"}]}
    0000/request.json     the request in JSON form, its files beside it
    0000/answer.json      {"outputs": {name: {"dtype", "shape", "data"}}, "response": {…}}
    0000/trace.npz        "NN.<step>.<value>" in order (values.py), and "door.<input>" with batch axis
    0000/caller/          where the caller does some of the steps: the raw request, the whole response (contract.py);
                          request.json is then what crosses from the caller to the bundle

Numbers are written so that reading gives the same value; those that are not finite are the texts
nan, inf and -inf. The same items give the same bytes.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from .arrays import Array, dtype
from .contract import ANSWER, FOLDER, REQUEST, VALUES, Contract, altered, note
from .errors import GoldenError
from .pipeline import to_json
from .request import array_from_npy
from .values import packed_steps, unpacked_steps

DOOR = "door."
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip archive can say: the same on any day
FILE_MODE = 0o644 << 16
MAX_BYTES = 1 << 30  # of one file, a trace's unpacked


@dataclass(frozen=True, kw_only=True, slots=True)
class Golden:
    """One fixture.

    Attributes:
        id: where it came from: `fixtures/sentences.jsonl:3`.
        request: in JSON form; its file fields name entries of `files`.
        outputs: the reference's, batch axis included.
        response: fields as the reference gives them, arrays without batch axis or plain JSON.
        trace: (step id, value name, value) in order; what has no JSON form is not kept.
        door: tensors at the model's door, batch axis included.
        files: path relative to the request → content; empty when read.
        folder: where request and files lie; None before they are written.
        contract: the caller's part, where it has one.
    """

    id: str
    request: Mapping[str, Any]
    outputs: Mapping[str, Array]
    response: Mapping[str, Any]
    door: Mapping[str, Array]
    trace: Sequence[tuple[str, str, Any]] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)
    folder: Path | None = None
    contract: Contract | None = None


def write_golden(folder: Path, items: Iterable[Golden], policy: Mapping[str, Any] | None = None) -> None:
    """Write the golden folder; `policy` is the content of policy.json, None leaves it to someone else."""
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for number, item in enumerate(items):
        name = f"{number:04d}"
        _write_item(folder / name, item)
        index.append({"id": item.id, "folder": name})
    _write_json(folder / "index.json", {"fixtures": index})
    if policy is not None:
        _write_json(folder / "policy.json", policy)


def read_policy(folder: Path) -> Mapping[str, Any]:
    """The content of policy.json; GoldenError where it is absent or malformed."""
    policy: dict[str, Any] = _read_json(folder / "policy.json")
    tolerance, spared = policy.get("tolerance"), policy.get("max_failing", 0)
    if not isinstance(tolerance, dict) or not all(isinstance(rules, dict) for rules in tolerance.values()):
        raise GoldenError("golden/policy.json: no tolerance")
    if type(spared) is not int or spared < 0:
        raise GoldenError(f"golden/policy.json: max_failing is {spared!r}, not a count")
    return policy


def read_golden(folder: Path) -> tuple[Golden, ...]:
    """Every fixture in order, files left on disk; GoldenError where the folder is malformed."""
    listed = _read_json(folder / "index.json").get("fixtures")
    if not isinstance(listed, list):
        raise GoldenError("golden/index.json: no list of fixtures")
    return tuple(_read_item(folder, entry) for entry in listed)


def array_to_json(array: Array) -> dict[str, Any]:
    """{"dtype", "shape", "data"}: the numbers in C order, exact."""
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": to_json(array.reshape(-1))}


def array_from_json(packed: Mapping[str, Any]) -> Array:
    """The array of `array_to_json`; ValueError, KeyError or TypeError where it is malformed."""
    name, shape, data = packed["dtype"], packed["shape"], packed["data"]
    if not isinstance(name, str) or not isinstance(shape, list) or not isinstance(data, list):
        raise TypeError("dtype is no text, or shape or data no list")
    kind = dtype(name)
    if any(type(size) is not int or size < 0 for size in shape) or math.prod(shape) != len(data):
        raise ValueError(f"{len(data)} numbers for shape {shape}")
    numbers: Any = [float(x) if isinstance(x, str) else x for x in data] if kind.kind == "f" else data
    try:
        return np.array(numbers, kind).reshape(shape)
    except OverflowError as error:
        raise ValueError(f"a number outside the range of {name}, or a size beyond all memory") from error


def _write_item(folder: Path, item: Golden) -> None:
    folder.mkdir(exist_ok=True)
    _write_files(folder, item.id, item.files)
    _write_json(folder / "request.json", item.request)
    if item.contract is not None:
        _write_contract(folder / FOLDER, item.id, item.contract)
    outputs = {name: array_to_json(array) for name, array in item.outputs.items()}
    _write_json(folder / "answer.json", {"outputs": outputs, "response": to_json(item.response)})
    write_npz(folder / "trace.npz", packed_steps(item.trace) | {DOOR + name: at for name, at in item.door.items()})


def _write_files(folder: Path, fixture: str, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise GoldenError(f"{fixture}: the file {name} lies outside the request's folder")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _write_contract(folder: Path, fixture: str, contract: Contract) -> None:
    folder.mkdir(exist_ok=True)
    _write_files(folder, fixture, contract.files)
    _write_json(folder / REQUEST, contract.request)
    _write_json(folder / ANSWER, {"response": to_json(contract.response)})
    written = {name: (folder / name).read_bytes() for name in (REQUEST, ANSWER)}
    _write_json(folder / VALUES, note(contract.values, {**contract.files, **written}))


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """An .npz archive with the same bytes for the same arrays: no clock, order as given."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, FILE_MODE
            content = io.BytesIO()
            np.lib.format.write_array(content, np.asarray(array), allow_pickle=False)
            archive.writestr(entry, content.getvalue())


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    path.write_bytes((text + "\n").encode())


def _read_json(path: Path) -> Any:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            raise ValueError(f"no file of at most {MAX_BYTES} bytes")
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise GoldenError(f"{_short(path)} can't be read: {error}") from error
    if not isinstance(value, dict):
        raise GoldenError(f"{_short(path)} is no JSON object")
    return value


def _read_item(golden: Path, entry: Any) -> Golden:
    try:
        folder = golden / str(entry["folder"])
        # A path, `..`, or a link.
        if folder.parent != golden or folder.resolve().parent != golden.resolve():
            raise GoldenError(f"golden/index.json: folder {entry['folder']!r} lies elsewhere")
        answer = _read_json(folder / "answer.json")
        if not isinstance(answer["response"], dict):
            raise TypeError("the response is no object")
        arrays = read_npz(folder / "trace.npz")
        outputs = {name: array_from_json(packed) for name, packed in answer["outputs"].items()}
        return Golden(
            id=str(entry["id"]),
            request=_read_json(folder / "request.json"),
            outputs=outputs,
            response=answer["response"],
            trace=unpacked_steps(arrays),
            folder=folder,
            door={k.removeprefix(DOOR): a for k, a in arrays.items() if k.startswith(DOOR)},
            contract=_read_contract(folder / FOLDER, arrays) if (folder / FOLDER).is_dir() else None,
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, OSError, RuntimeError) as error:
        raise GoldenError(f"golden: a malformed fixture ({type(error).__name__}: {error})") from error


def _read_contract(folder: Path, arrays: Mapping[str, Array]) -> Contract:
    noted = _read_json(folder / VALUES)
    return Contract(
        request=_read_json(folder / REQUEST),
        response=_read_json(folder / ANSWER)["response"],
        values={name: kept["value"] if "value" in kept else arrays.get(name) for name, kept in noted["values"].items()},
        noted=noted,
    )


def altered_contract(item: Golden) -> list[str]:
    """What of the caller's part is not what was recorded, in words; GoldenError where it is malformed."""
    if item.contract is None or item.folder is None:
        return []
    try:
        return altered(item.contract.noted, item.folder / FOLDER, item.contract.values)
    except (KeyError, TypeError, AttributeError, ValueError, OSError, RecursionError) as error:
        raise GoldenError(f"{item.id}: a malformed {FOLDER}/{VALUES} ({type(error).__name__}: {error})") from error


def read_npz(path: Path) -> dict[str, Array]:
    """What `write_npz` wrote. np.load would unpack whatever an archive announces, and take memory for any shape."""
    try:
        if not path.is_file():
            raise ValueError("no file")
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES} bytes once unpacked")
            return {entry.filename.removesuffix(".npy"): array_from_npy(archive.read(entry)) for entry in entries}
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise GoldenError(f"{_short(path)} can't be read: {type(error).__name__}: {error}") from error


def _short(path: Path) -> str:
    return "/".join(path.parts[-2:])
