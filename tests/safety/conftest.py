"""A project whose every file shouts when it is imported, executed or unpickled."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dspec.compiler.store import describe
from dspec.spec.records import Manifest

SHOUT = "with open({marker!r}, 'a') as file:\n    file.write(__file__ + '\\n')\nraise SystemExit('this must not run')\n"
SPEC = """\
apiVersion: dspec/v1alpha1
name: loud
model:
  factory: {factory}
  code: {{sources: ["*.py"]}}
  files: [asset.pkl]
  weights: {weights}
  inputs: {{x: {{dtype: float32, shape: [batch, 4]}}}}
  outputs: {{y: {{dtype: float32, shape: [batch, 2]}}}}
  dims: {{batch: {{max: 8}}}}
request: {{raw: {{type: tensor, dtype: float32, shape: [4]}}, text: {{type: text}}}}
preprocess:
  - {{id: words, use: tokenize, tokenizer: asset.pkl, max_length: 8, padding: max_length, in: text, out: [ids, mask]}}
  - {{id: own, python: steps.py:clean, in: [raw, ids, mask], out: x}}
postprocess:
  - {{id: after, python: steps.py:best, in: y, out: z}}
response: {{z: {{from: z}}}}
training: {{preprocess: training.py:encode, postprocess: training.py:decode}}
fixtures: [{{file: fixtures.npz}}, {{file: fixtures.jsonl}}]
targets:
  board: {{runtime: onnxruntime, hardware: board}}
  host: {{runtime: onnxruntime}}
"""


class _Payload:
    """Unpickling it writes the marker."""

    def __init__(self, marker: Path, name: str) -> None:
        self.code = f"with open({str(marker)!r}, 'a') as file: file.write({name!r} + '\\n')"

    def __reduce__(self) -> Any:
        return exec, (self.code,)


@dataclass(frozen=True)
class Loud:
    """`folder` is the project, `library` what PYTHONPATH brings, `bundle` a bundle; nothing may write `marker`."""

    folder: Path
    library: Path
    bundle: Path
    marker: Path

    @property
    def shouts(self) -> str:
        return self.marker.read_text() if self.marker.exists() else ""


@pytest.fixture(scope="session")
def make_loud(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return lambda: loud_project(tmp_path_factory.mktemp("loud"))


@pytest.fixture(scope="session")
def before_us(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """What `python -m` imports, from the working folder too, before any code of ours can run."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.py").write_text(
        "import sys\nfound = {name: one.__spec__ for name, one in sys.modules.items()}\n"
        "print(*(name for name, spec in found.items() if spec and spec.origin not in ('built-in', 'frozen')))"
    )
    command = [sys.executable, "-m", "probe"]
    return tuple(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split())


def loud_project(root: Path) -> Loud:
    loud = Loud(root / "project", root / "library", root / "bundle", root / "marker.txt")
    for folder in (loud.folder, loud.library, loud.bundle):
        folder.mkdir()
    _project(loud)
    _library(loud)
    _bundle(loud)
    return loud


def _shouting(loud: Loud, names: str = "") -> str:
    """Python that shouts at once; below, the names that a spec may ask for."""
    return SHOUT.format(marker=str(loud.marker)) + "".join(f"def {name}(*values): ...\n" for name in names.split())


def _project(loud: Loud) -> None:
    folder = loud.folder
    # Whatever Python imports by name, this folder has a file of that name: the whole standard library, and what we use.
    for name in sorted({*sys.stdlib_module_names, "pydantic", "ruamel", "rich", "torch", "numpy", "onnx", "yaml",
                        "conftest", "setup", "sitecustomize", "usercustomize", "dspec_bundle", "typing_extensions",
                        "annotated_types", "pydantic_core", "packaging", "attr"}):  # fmt: skip
        (folder / f"{name}.py").write_text(_shouting(loud))
    (folder / "model.py").write_text(_shouting(loud, "build"))
    (folder / "training.py").write_text(_shouting(loud, "encode decode"))
    (folder / "steps.py").write_text(_shouting(loud, "clean best"))
    (folder / "evil.pth").write_text(f"import os; open({str(loud.marker)!r}, 'a').write('pth')\n")
    (folder / "weights.pt").write_bytes(_checkpoint(loud))
    (folder / "asset.pkl").write_bytes(pickle.dumps(_Payload(loud.marker, "asset.pkl")))
    (folder / "fixtures.npz").write_bytes(_npz(loud))
    (folder / "fixtures.jsonl").write_text('{"raw": [0, 0, 0, 0], "text": "hello"}\n')
    (folder / "hardware").mkdir()
    (folder / "hardware" / "board.yaml").write_text(f"os: {os.uname().sysname.lower()}\narch: {_arch()}\n")
    _runtime_of_the_folder(loud)
    (folder / "deploy.yaml").write_text(SPEC.format(factory="model.py:build", weights="{path: weights.pt}"))
    digest = hashlib.sha256((folder / "weights.pt").read_bytes()).hexdigest()
    weights = f"{{package: loud_weights==1.0, path: model.pt, sha256: {digest}}}"
    (folder / "package.yaml").write_text(SPEC.format(factory="loud_package.module:build", weights=weights))
    (folder / "unpinned.yaml").write_text(
        SPEC.format(factory="model.py:build", weights="{package: loud_weights==1.0, path: model.pt}")
    )


def _arch() -> str:
    return {"aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


def _checkpoint(loud: Loud) -> bytes:
    """A checkpoint as torch.save writes it, whose pickle shouts."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(_Payload(loud.marker, "weights.pt")))
    return content.getvalue()


def _npz(loud: Loud) -> bytes:
    """An object array: numpy unpickles it where it is asked to."""
    head = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        pickled = pickle.dumps(_Payload(loud.marker, "fixtures.npz"))
        archive.writestr("raw.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + pickled)
    return content.getvalue()


def _runtime_of_the_folder(loud: Loud) -> None:
    """A distribution in the working folder that offers a runtime: found only if that folder is on sys.path."""
    info = loud.folder / "evil_runtime-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil-runtime\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dspec.runtimes]\nevil = evil_runtime\n[pydantic]\nevil = evil_runtime:plug\n"
    )
    (loud.folder / "evil_runtime.py").write_text(_shouting(loud, "plug"))


def _library(loud: Loud) -> None:
    """Installed packages: the factory's, and one that carries weights."""
    for package in ("loud_package", "loud_weights"):
        (loud.library / package).mkdir()
        (loud.library / package / "__init__.py").write_text(_shouting(loud))
    (loud.library / "loud_package" / "module.py").write_text(_shouting(loud, "build"))
    (loud.library / "loud_weights" / "model.pt").write_bytes((loud.folder / "weights.pt").read_bytes())
    info = loud.library / "loud_weights-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: loud_weights\nVersion: 1.0\n")
    (info / "RECORD").write_text("loud_weights/__init__.py,,\nloud_weights/model.pt,,\n")


def _bundle(loud: Loud) -> None:
    bundle = loud.bundle
    for folder in ("model", "golden", "dspec_bundle"):
        (bundle / folder).mkdir()
    (bundle / "model" / "model.onnx").write_bytes(pickle.dumps(_Payload(loud.marker, "model.onnx")))
    (bundle / "golden" / "trace.npz").write_bytes((loud.folder / "fixtures.npz").read_bytes())
    for name in ("__init__", "__main__", "steps"):
        (bundle / "dspec_bundle" / f"{name}.py").write_text(_shouting(loud))
    (bundle / "conftest.py").write_text(_shouting(loud))
    body = {
        "schema": "dspec/bundle/v1alpha1", "name": "loud", "version": "1", "target": "board", "owner": "",
        "hardware": "board", "runtime": "onnxruntime", "engine": "onnxruntime", "variant": "fp32",
        "command": [sys.executable, "conftest.py"], "cores": 1, "interface": {"inputs": {}, "outputs": {}},
        "model": {"path": "model/model.onnx"}, "options": {}, "toolchain": {},
        "files": [entry.model_dump(mode="json") for entry in describe(bundle)],
        "reference": {"torch": "2.13.0", "cpu": "x86-64-avx2", "threads": 1, "fixtures": 1, "source": "0" * 64},
    }  # fmt: skip
    manifest = Manifest.model_validate_json(json.dumps(body)).with_digests()
    (bundle / "bundle.json").write_text(manifest.model_dump_json(by_alias=True))
