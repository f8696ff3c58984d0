"""Writes the module folder: the user's own sources, and how their module is made and called, for who runs it again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from dspec.compiler.capture.closure import Closure
from dspec.compiler.capture.flat import Flat
from dspec.compiler.capture.usercode import UserCode
from dspec.spec.models import Spec

SOURCES = "sources"


def write_module(spec: Spec, code: UserCode, flat: Flat, loaded: Closure, out: Path) -> None:
    """`module.json` and `sources/` in `out`: what user code was seen to load, and nothing else that the spec declares.

    Its weights are those of the program, under the same names.
    """
    out.mkdir(parents=True, exist_ok=True)
    owned = {own: path for path in loaded.read if (own := code.places.own(str(path)))}
    for own, path in owned.items():
        target = out / SOURCES / own
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    answers = flat.answers
    body = {
        "factory": spec.model.factory,
        "config": spec.model.config,
        "inputs": list(spec.model.inputs),
        "outputs": {"names": list(answers.names), "paths": list(answers.paths), "count": answers.count},
        "copied": sorted(flat.copied),
        "files": sorted(owned),
        "distributions": list(loaded.distributions),
        "outside": sorted(path.name for path in loaded.read if path not in owned.values()),
    }
    (out / "module.json").write_text(json.dumps(body, indent=1) + "\n")
