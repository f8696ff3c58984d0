"""Writes fixtures/windows.jsonl: the LFW subset that scikit-image ships, as labelled requests.

    python examples/face_onet/make_fixtures.py

200 grey windows of 25 x 25 pixels: 100 faces of *Labeled Faces in the Wild* (Huang et al., 2012), then 100 pieces of
the backgrounds of the same photographs. They stand in turn here, so that the first few hold both.
"""

from __future__ import annotations

import base64
import io
import json
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from PIL import Image

FACES = 100
OUT = Path(__file__).parent / "fixtures" / "windows.jsonl"


def main() -> None:
    # Found without importing the package.
    windows = np.load(str(distribution("scikit-image").locate_file("skimage/data/lfw_subset.npy")))
    in_turn = [at for pair in zip(range(FACES), range(FACES, len(windows)), strict=True) for at in pair]
    lines = [json.dumps({"image": {"base64": _png(windows[at])}, "expected": _label(at)}) for at in in_turn]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _png(window: np.ndarray) -> str:
    """`window`: float64 [25, 25], 0 to 1."""
    content = io.BytesIO()
    Image.fromarray(np.rint(window * 255).astype(np.uint8)).save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def _label(at: int) -> dict[str, str | int]:
    """One label per field that quality looks at."""
    face = at < FACES
    return {"label": "face" if face else "background", "probability": int(face)}


if __name__ == "__main__":
    main()
