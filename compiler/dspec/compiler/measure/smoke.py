"""Smoke: the bundle starts from its own folder with only its requirements, answers one request, and stops."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from dspec.targets.protocol import Environment

TIMEOUT_S = 120


def smoke(bundle: Path, request: Path, environment: Environment) -> str:
    """`ok`, or what went wrong. `request` is a request in JSON form, its file fields relative to its folder."""
    command = [str(environment.python), "-m", "dspec_bundle", "run", "--input", str(request)]
    try:
        done = subprocess.run(
            command,
            cwd=bundle,
            env=clean_variables(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIMEOUT_S} s"
    if done.returncode:
        return f"exit code {done.returncode}: " + " / ".join(done.stderr.strip().splitlines()[-3:])
    return "ok" if _is_json(done.stdout) else f"the answer is not JSON: {done.stdout[:200]!r}"


def clean_variables() -> dict[str, str]:
    """The environment of a machine that never heard of dspec."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
    }


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
