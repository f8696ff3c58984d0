"""`dspec init`: a commented starter, read from the command line and the factory's source (never executed)."""

from __future__ import annotations

import argparse

from dspec.spec.starter import write_starter
from dspec.targets import catalogue

DEFAULT_FACTORY = "model.py:build"
DEFAULT_FIXTURES = "fixtures/requests.jsonl"


def run(options: argparse.Namespace) -> int:
    written = write_starter(
        options.folder,
        catalogue(),
        name=options.name,
        factory=options.factory or DEFAULT_FACTORY,
        inputs=tuple(options.input),
        outputs=tuple(options.output),
        weights=options.weights,
        fixtures=options.fixtures or DEFAULT_FIXTURES,
    )
    print("\n".join(f"wrote {path}" for path in written))
    print("next: fill in what is marked, then `dspec check`")
    return 0
