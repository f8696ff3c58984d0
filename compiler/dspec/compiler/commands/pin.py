"""`dspec pin`: write the sha256 of what comes from outside the spec's folder into the spec."""

from __future__ import annotations

import argparse

from dspec.spec.pin import pin
from dspec.targets import catalogue


def run(options: argparse.Namespace) -> int:
    changes = pin(options.file, catalogue())
    print("\n".join(changes) if changes else f"{options.file}: every digest is current")
    return 0
