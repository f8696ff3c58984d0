"""Fixtures, streamed: raw requests from JSON Lines or .npz, and the tensors they become at the model's door."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from dspec.compiler.capture.shapes import Array
from dspec.spec.errors import DspecError, MachineError, SpecError
from dspec.spec.models import BATCH, Spec
from dspec.targets.shipped.errors import BundleError, MissingLibrary, RequestError
from dspec.targets.shipped.pipeline import Pipeline
from dspec.targets.shipped.request import LABEL, read_request


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixture:
    """One request.

    Attributes:
        id: `<file>:<line or row>`, from 1.
        source: index into `spec.fixtures`.
        raw: in JSON form, as the file has it; tensors of an .npz are arrays.
        request: in Python form.
        folder: what file names in `raw` are relative to.
    """

    id: str
    source: int
    raw: Mapping[str, Any]
    request: Mapping[str, Any]
    expected: Any
    folder: Path


@dataclass(frozen=True, slots=True)
class Fixtures:
    """Every fixture of a spec, prepared by the pipeline that ships."""

    spec: Spec
    folder: Path
    pipeline: Pipeline

    def __iter__(self) -> Iterator[Fixture]:
        """Raises SpecError with file and line for what can't be read, and for a file without any."""
        for source, declared in enumerate(self.spec.fixtures):
            path = self.folder / declared.file
            if not path.is_file():
                raise _error("E0450", f"{declared.file}: no such file", declared.file, 0, "correct fixtures")
            rows = _npz_rows(path, declared.file) if path.suffix == ".npz" else _json_lines(path, declared.file)
            number = 0
            for number, raw in rows:
                yield self._fixture(source, declared.file, number, raw, path.parent)
            if not number:
                message = f"{declared.file} holds no fixtures"
                raise _error("E0451", message, declared.file, 0, "add real requests, one per line")

    def _fixture(self, source: int, file: str, number: int, raw: Any, folder: Path) -> Fixture:
        try:
            plain = not any(isinstance(value, np.ndarray) for value in raw.values()) if isinstance(raw, dict) else True
            fields = self.pipeline.fields
            request = read_request(fields, raw, folder) if plain else _of_row(fields, raw)
        except RequestError as error:
            raise _unfit(file, number, error) from error
        expected = _label(file, number, raw.get(LABEL)) if LABEL not in fields else None
        return Fixture(id=f"{file}:{number}", source=source, raw=raw, request=request, expected=expected, folder=folder)

    def door(self, fixture: Fixture) -> dict[str, Array]:
        """The tensors at the model's door; raises SpecError naming the fixture, the dim and its bounds."""
        file, _, number = fixture.id.rpartition(":")
        try:
            return self.pipeline.before(fixture.request)
        except RequestError as error:
            raise _unfit(file, int(number), error) from error
        except BundleError as error:
            raise _error(
                "E0452", f"{fixture.id}: {error}", file, int(number), "correct the step or the request"
            ) from error


def open_pipeline(folder: Path) -> Pipeline:
    """The pipeline of a folder; raises MachineError where a library lacks, SpecError where a step does not open."""
    try:
        return Pipeline.load(folder)
    except MissingLibrary as error:
        raise MachineError.of("E0456", str(error), key="preprocess", hint="install what the step needs") from error
    except BundleError as error:
        hint = "correct the step's parameters or its asset"
        raise SpecError.of("E0456", str(error), key="preprocess", hint=hint) from error


def _error(code: str, message: str, file: str, line: int, hint: str, **details: Any) -> DspecError:
    return SpecError.of(code, message, file=file, line=line, key="fixtures", hint=hint, **details)


def _label(file: str, number: int, expected: Any) -> Any:
    """A label as plain JSON values. Python's reader of JSON lets NaN and Infinity pass; nothing can equal them."""
    label = _plain(expected)
    try:
        json.dumps(label, allow_nan=False)
    except ValueError as error:
        message = f"{file}:{number}: `{LABEL}` holds NaN or infinity"
        hint = "leave the label out where there is none"
        raise _error("E0452", message, file, number, hint, expected="a label with finite numbers") from error
    return label


def _unfit(file: str, number: int, error: RequestError) -> DspecError:
    step = f" (step {error.step})" if error.step else ""
    one_item = f"({BATCH})" in error.expected
    hint = "correct the fixture, or widen what the spec declares"
    return _error(
        "E0452",
        f"{file}:{number}: {error.field or 'the request'}: {error.found}{step}",
        file,
        number,
        f"a request is one item: let model.dims.{BATCH} begin at 1" if one_item else hint,
        expected=error.expected,
    )


def _json_lines(path: Path, file: str) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                try:
                    yield number, json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
                except ValueError as error:
                    message = f"{file}:{number} is not JSON: {error}"
                    hint = "one JSON object per line; JSON Lines has no brackets around all of it"
                    raise _error("E0450", message, file, number, hint) from error


def _of_row(fields: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """A row of arrays as a request in Python form; Pipeline.before checks the rest."""
    given = {name: value for name, value in raw.items() if name in fields or name != LABEL}
    return {name: _python_form(fields.get(name, {}).get("type"), value) for name, value in given.items()}


def _python_form(kind: str | None, value: Any) -> Any:
    return _plain(value) if kind in ("number", "text", "json") else value


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _npz_rows(path: Path, file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows of the arrays in step, read as they are asked for: a large file never stands in memory."""
    try:
        with ExitStack() as stack:
            archive = stack.enter_context(zipfile.ZipFile(path))
            columns = {}
            for name in archive.namelist():
                columns[name.removesuffix(".npy")] = _Column(stack.enter_context(archive.open(name)), name)
            counts = {name: column.rows for name, column in columns.items()}
            if len(set(counts.values())) > 1:
                message = f"{file}: the arrays have {counts} rows"
                raise _error("E0450", message, file, 0, "the first axis counts requests, in every array alike")
            for number in range(next(iter(counts.values()), 0)):
                yield number + 1, {name: column.read() for name, column in columns.items()}
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise _error(
            "E0450", f"{file} is no .npz of plain arrays: {error}", file, 0, "save it with numpy.savez"
        ) from error


class _Column:
    """One array of an .npz, read row by row."""

    def __init__(self, stream: Any, name: str) -> None:
        version = npy.read_magic(stream)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, self.dtype = header(stream)
        if self.dtype.hasobject:
            raise ValueError(f"{name} holds Python objects")
        if not shape:
            raise ValueError(f"{name} has no axis that counts requests")
        if fortran and len(shape) > 1:
            raise ValueError(f"{name} is stored column by column; save numpy.ascontiguousarray of it")
        self.stream, self.rows, self.shape = stream, shape[0], shape[1:]

    def read(self) -> Array:
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        data = self.stream.read(size)
        if len(data) != size:
            raise EOFError("it ends early")
        return np.frombuffer(data, self.dtype).reshape(self.shape).copy()
