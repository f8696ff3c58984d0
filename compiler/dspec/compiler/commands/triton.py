"""`dspec triton install`: a Triton server for this user, without Docker."""

from __future__ import annotations

import argparse

from dspec.compiler.console import progress
from dspec.targets.triton.install import install, is_installed


def run(options: argparse.Namespace) -> int:
    """0: it is there. Raises MachineError where it can't be had."""
    there = is_installed()
    with progress() as report:
        folder = install(report, options.wheel)
    print(f"{'already there' if there else 'installed'}: {folder}")
    return 0
