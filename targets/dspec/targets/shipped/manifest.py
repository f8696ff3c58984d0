"""Reading bundle.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import BundleError


def read_manifest(folder: Path) -> Mapping[str, Any]:
    """The content of bundle.json. Raises BundleError where it is absent or no JSON object."""
    path = folder / "bundle.json"
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no file")
        manifest = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise BundleError(f"no bundle.json in {folder}: run this from inside a bundle, or name one") from error
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"bundle.json can't be read: {error}") from error
    if not isinstance(manifest, dict):
        raise BundleError("bundle.json is no JSON object")
    interface = manifest.get("interface")
    parts = [interface.get(part) for part in ("inputs", "outputs", "dims")] if isinstance(interface, dict) else [None]
    if not all(isinstance(part, dict) for part in parts) or "engine" not in manifest:
        raise BundleError("bundle.json: no engine, or an interface without inputs, outputs and dims")
    return manifest
