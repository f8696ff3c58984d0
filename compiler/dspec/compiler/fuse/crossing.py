"""Fixtures as they cross from the caller to the bundle: what the caller's first steps make of the raw requests."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dspec.compiler.caller import Caller
from dspec.compiler.capture.fixtures import Fixture
from dspec.compiler.capture.shards import ReferenceWriter
from dspec.spec.errors import SpecError
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.request import read_request

Fields = Mapping[str, Mapping[str, Any]]


def add_fixtures(
    writer: ReferenceWriter, fields: Fields, caller: Caller, source: Path, fixtures: Sequence[dict[str, Any]]
) -> None:
    """The `fixtures` of the reference in `source`, as requests with these `fields`; as they are where nothing is owed.

    Raises SpecError E0354 where a value can't cross.
    """
    if not caller.owes_before:
        writer.fixtures = list(fixtures)
        if (source / "files").is_dir():
            shutil.copytree(source / "files", writer.out / "files")
        return
    for known in fixtures:
        writer.add_fixture(_crossed(known, fields, caller, source), fields)


def _crossed(known: Mapping[str, Any], fields: Fields, caller: Caller, source: Path) -> Fixture:
    try:
        request = caller.before(read_request(caller.fields, known["request"], source))
    except (RequestError, BundleError) as error:
        raise SpecError.of(
            "E0354",
            f"fixture {known['id']}: what the caller's steps give can't be a request: {error}",
            key="preprocess",
            expected="arrays of finite numbers, texts, numbers or JSON, as the next step's input declares",
            hint="run the step that makes the value on the host, or give the step that mends it to the caller too",
        ) from error
    raw = {name: _raw(known["request"].get(name), value, fields[name]) for name, value in request.items()}
    return Fixture(
        id=known["id"],
        source=known["source"],
        raw=raw,
        request=request,
        expected=known["expected"],
        folder=source,
    )


def _raw(raw: Any, value: Any, field: Mapping[str, Any]) -> Any:
    """The JSON form: a raw field keeps its own; an array becomes nested lists where these tell all of it."""
    if raw is not None:
        return raw
    exact = isinstance(value, np.ndarray) and bool(value.size) and field["dtype"] is not None
    return value.tolist() if exact else value
