"""`dspec init`: the first `deploy.yaml`, from what the flags and the factory's source say. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from dspec.spec.catalogue import Catalogue
from dspec.spec.dims import is_name, names
from dspec.spec.errors import DspecError, SpecError
from dspec.spec.models import BATCH, DType
from dspec.spec.nearest import did_you_mean, listed
from dspec.spec.pysource import forward_parameters
from dspec.spec.schema import deploy_schema, text
from dspec.spec.starter_texts import ATTRIBUTES, HEAD, IGNORED, SCHEMA, tail

SPEC = "deploy.yaml"

_TENSOR = re.compile(r"^(?P<name>[A-Za-z][\w.]*)=(?P<dtype>\w+)\[(?P<shape>[^\[\]]*)\]$")
_SLUG = re.compile(r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
_CALLEE = re.compile(r"^[\w./-]+:[A-Za-z_]\w*$")
_SAFE = re.compile(r"^[A-Za-z_./][\w./-]*$")
_DIM = {BATCH: "{min: 1, max: 32}"}
_OTHER_DIM = "{min: 2, max: 128}"


class Declared(NamedTuple):
    """A tensor as a flag declares it: `image=float32[batch,3,224,224]`."""

    name: str
    dtype: str
    shape: tuple[str, ...]


def parse_tensor(flag: str, option: str = "--input") -> Declared:
    """A tensor from a flag; raises SpecError with the form expected."""
    found = _TENSOR.match(flag.strip())
    if not found:
        raise _wrong(
            f"`{option} {flag}` is no tensor", f"{option} name=dtype[size,size], as x=float32[batch,3,224,224]"
        )
    dtypes: tuple[str, ...] = get_args(DType)
    if found["dtype"] not in dtypes:
        raise _wrong(f"`{option} {flag}`: unknown dtype `{found['dtype']}`", listed(dtypes),
                     did_you_mean(found["dtype"], dtypes))  # fmt: skip
    shape = tuple(size.strip() for size in found["shape"].split(",")) if found["shape"].strip() else ()
    wrong = next((size for size in shape if not _is_size(size, expression=option == "--output")), None)
    if wrong is not None:
        raise _wrong(f"`{option} {flag}`: `{wrong}` is no size", "a whole number from 1, or a dim's name")
    return Declared(found["name"], found["dtype"], shape)


def _is_size(size: str, *, expression: bool) -> bool:
    if size.isdecimal():
        return int(size) > 0 and not size.startswith("0")
    if is_name(size):
        return True
    try:
        return expression and bool(names(size))
    except ValueError:
        return False


def _wrong(message: str, expected: str, hint: str = "") -> DspecError:
    return SpecError.of("E0341", message, expected=expected, hint=hint or "correct the command")


def starter(
    name: str,
    factory: str,
    inputs: Sequence[str],
    *,
    outputs: Sequence[str] = (),
    weights: str = "",
    fixtures: str = "fixtures/requests.jsonl",
    folder: Path | None = None,
) -> str:
    """The text of a starter, with comments on what to fill in next.

    `inputs` and `outputs` are `name=dtype[sizes]`. Without inputs, the parameters of forward() in the factory's source
    are taken (`folder` is where it lies), and their shapes are left to be corrected. `weights` is a safetensors file or a
    checkpoint; `fixtures` holds one request a line.

    Raises:
        SpecError: a flag that can't be used.
    """
    if not _SLUG.match(name):
        raise _wrong(f"`--name {name}`", "small letters, digits and `-`", f"write {slug(name)}")
    if not _CALLEE.match(factory):
        raise _wrong(f"`--factory {factory}`", "file.py:callable or package.module:callable")
    declared = [parse_tensor(flag) for flag in inputs] or _guessed(factory, folder)
    given = [parse_tensor(flag, "--output") for flag in outputs]
    return (
        HEAD.format(name=name, factory=factory)
        + _model(declared, given, weights, guessed=not inputs)
        + tail(_quoted(fixtures))
    )


def slug(name: str) -> str:
    """The nearest valid name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "model"


def _guessed(factory: str, folder: Path | None) -> list[Declared]:
    file = factory.partition(":")[0]
    found = forward_parameters(folder / file) if folder and file.endswith(".py") else ()
    return [Declared(parameter, "float32", (BATCH, "8")) for parameter in found or ("x",)]


def _model(inputs: list[Declared], outputs: list[Declared], weights: str, *, guessed: bool) -> str:
    lines = []
    if weights:
        lines.append(f"  weights: {{path: {_quoted(weights)}}}")
    else:
        lines.append(
            "  # weights: {path: weights.safetensors}   # absent: the weights that the factory gives its module"
        )
    lines.append(
        "  inputs:"
        + ("                                # guessed from forward(): correct dtypes and shapes" if guessed else "")
    )
    lines += [_tensor(tensor) for tensor in inputs]
    if outputs:
        lines += ["  outputs:", *map(_tensor, outputs)]
    else:
        lines.append(
            "  # outputs: {logits: {dtype: float32, shape: [batch, 10]}}   # absent: taken from what the module returns"
        )
    dims = dict.fromkeys(name for tensor in (*inputs, *outputs) for size in tensor.shape
                         if not size.isdecimal() for name in names(size))  # fmt: skip
    if dims:
        lines += ["  dims:                                  # the sizes that vary, and how far",
                  *(f"    {dim}: {_DIM.get(dim, _OTHER_DIM)}" for dim in dims)]  # fmt: skip
    return "\n".join(lines) + "\n"


def _tensor(tensor: Declared) -> str:
    return f"    {tensor.name}: {{dtype: {tensor.dtype}, shape: [{', '.join(tensor.shape)}]}}"


def _quoted(text: str) -> str:
    if _SAFE.match(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def write_starter(
    folder: Path,
    catalogue: Catalogue,
    *,
    name: str = "",
    factory: str = "model.py:build",
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    weights: str = "",
    fixtures: str = "fixtures/requests.jsonl",
) -> list[Path]:
    """Write deploy.yaml, its schema, .gitignore and .gitattributes; gives the files written.

    An existing .gitignore or .gitattributes keeps its lines and gets those that it lacks.

    Raises:
        SpecError: deploy.yaml exists, or a flag can't be used; nothing is written then.
    """
    body = starter(name or slug(folder.resolve().name), factory, inputs, outputs=outputs, weights=weights,
                   fixtures=fixtures, folder=folder)  # fmt: skip
    if (folder / SPEC).exists():
        raise SpecError.of("E0340", f"`{SPEC}` exists already", file=str(folder / SPEC), expected="a folder without one",
                           hint="edit it, or run `dspec init` in another folder")  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SPEC).write_text(body, "utf-8")
    (folder / SCHEMA).write_text(text(deploy_schema(catalogue)), "utf-8")
    added = [_added(folder / ".gitignore", IGNORED), _added(folder / ".gitattributes", ATTRIBUTES)]
    return [folder / SPEC, folder / SCHEMA, *filter(None, added)]


def _added(file: Path, wanted: str) -> Path | None:
    """Append the lines that a file lacks."""
    present = file.read_text("utf-8") if file.exists() else ""
    missing = [line for line in wanted.splitlines() if line not in present.splitlines()]
    if not missing:
        return None
    gap = "" if not present or present.endswith("\n") else "\n"
    file.write_text(present + gap + "\n".join(missing) + "\n", "utf-8")
    return file
