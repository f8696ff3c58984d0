"""`dspec run BUNDLE`: the bundle's own runner, in an environment with just its requirements."""

from __future__ import annotations

import argparse
import os
import subprocess

from dspec.compiler.bundle import read_manifest
from dspec.compiler.console import progress
from dspec.compiler.environment import clean_environment


def run(options: argparse.Namespace) -> int:
    manifest = read_manifest(options.bundle)
    with progress() as report:
        environment = clean_environment(options.bundle / "requirements.txt", manifest.cores, report)
    arguments = [part for value in options.input for part in ("--input", value)]
    if options.trace:
        arguments += ["--trace", str(options.trace)]
    command = [str(environment.python), "-P", "-m", "dspec_bundle", "run", *arguments]
    # -P: the working folder stays off the import path, so that only this bundle's code answers. The user's own folder stays the working folder, so that file names in --input mean what they say.
    variables = {
        **os.environ,
        "PYTHONPATH": str(options.bundle.resolve()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(command, env=variables, check=False).returncode
