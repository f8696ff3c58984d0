"""`dspec pin`: writes the sha256 of a spec's sources into the file, and changes nothing else in it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from dspec.spec.catalogue import Catalogue
from dspec.spec.errors import DspecError, SpecError
from dspec.spec.files import KEY_OF, locate, sha256_of
from dspec.spec.models import Source, Weights
from dspec.spec.nodes import KeyPath, Mapping, Node, Scalar, Sequence, plain
from dspec.spec.sources import SourceMap, dotted
from dspec.spec.steps import asset_names
from dspec.spec.structure import explain_errors
from dspec.spec.yamltext import parse

_NUMBER = re.compile(r"\d+(e\d+)?")  # a digest that YAML would read as a number


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def pin(path: Path, catalogue: Catalogue) -> list[str]:
    """Write or renew the sha256 of every package source, and of path sources that have one.

    Returns:
        one line per source that changed, as `model.weights: sha256 53aa…`; none where the file is current.

    Raises:
        SpecError: the text is not YAML, or a source is wrong; the file is then unchanged.
        MachineError: a package is not installed here.
    """
    data = path.read_bytes()
    text, root = parse(data, str(path))
    sources = SourceMap(str(path), text, root)
    edits: dict[int, _Edit] = {}
    changed = []
    for key_path, node in _sources(root, catalogue):
        digest = _digest(sources, key_path, node, path.parent)
        if digest is not None:
            edit = _edit(text.text, node, digest)
            edits[edit.start] = edit
            changed.append(f"{dotted(key_path)}: sha256 {digest}")
    if edits:
        _write(path, _apply(data.decode("utf-8"), edits.values()))
    return changed


def _sources(root: Mapping, catalogue: Catalogue) -> Iterator[tuple[KeyPath, Mapping]]:
    """Every source written as a mapping: the weights, and the files among the parameters of steps."""
    model = root.get("model")
    found: list[tuple[KeyPath, Node | None]] = []
    if isinstance(model, Mapping):
        found.append((("model", "weights"), model.get("weights")))
    for section in ("preprocess", "postprocess"):
        steps = root.get(section)
        for number, step in enumerate(steps.items if isinstance(steps, Sequence) else ()):
            found += [((section, number, name), step.get(name)) for name in asset_names(step, catalogue)
                      if isinstance(step, Mapping)]  # fmt: skip
    for key_path, node in found:
        if isinstance(node, Mapping) and ("package" in node.items or "sha256" in node.items):
            yield key_path, node


def _digest(sources: SourceMap, key_path: KeyPath, node: Mapping, folder: Path) -> str | None:
    """The digest to write, or None where the file says it already."""
    written = node.get("sha256")
    known = written.value if isinstance(written, Scalar) else None
    model = Weights if key_path[-1] == "weights" else Source
    try:
        source = model.model_validate_json(json.dumps(plain(node) | {"sha256": None}))
    except ValidationError as error:
        raise SpecError(explain_errors(error, sources, key_path, model)) from error
    try:
        found = sha256_of(locate(source, folder, verify=False))
    except DspecError as error:
        placed = [
            replace(
                sources.diagnostic(one.code, (*key_path, KEY_OF.get(one.code, "path")), one.message),
                expected=one.expected,
                hint=one.hint,
            )
            for one in error.diagnostics
        ]
        raise type(error)(placed) from error
    return None if found == known else found


def _edit(text: str, node: Mapping, digest: str) -> _Edit:
    shown = f'"{digest}"' if _NUMBER.fullmatch(digest) else digest
    if "sha256" in node.items:
        key, value = node.items["sha256"]
        if value.span.end > value.span.start:
            return _Edit(value.span.start, value.span.end, shown)
        colon = text.index(":", key.span.end)  # an empty value has no place of its own
        return _Edit(colon + 1, colon + 1, f" {shown}")
    key, value = node.items["path"]
    if node.flow:
        return _Edit(value.span.end, value.span.end, f", sha256: {shown}")
    end = text.find("\n", value.span.end)
    indent = " " * (key.span.col - 1)
    if end < 0:
        return _Edit(len(text), len(text), f"\n{indent}sha256: {shown}")
    line_break = "\r\n" if text[end - 1] == "\r" else "\n"
    return _Edit(end + 1, end + 1, f"{indent}sha256: {shown}{line_break}")


def _apply(text: str, edits: Iterable[_Edit]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _write(path: Path, text: str) -> None:
    """Check that what will stand there can be read, then swap it in."""
    target = path.resolve()
    data = text.encode("utf-8")
    parse(data, str(path))
    beside = target.with_name(f".{target.name}.pin")
    beside.write_bytes(data)
    shutil.copymode(target, beside)
    os.replace(beside, target)
