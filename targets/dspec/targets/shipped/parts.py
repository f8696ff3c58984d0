"""Which of these files a bundle ships; this one stays at home.

Files are named one by one: a copied folder would bring `__pycache__` along.
"""

from __future__ import annotations

from collections.abc import Iterable

COMMON = (
    "__init__.py",
    "__main__.py",
    "arrays.py",
    "compare.py",
    "contract.py",
    "cores.py",
    "door.py",
    "engine.py",
    "errors.py",
    "frames.py",
    "frontier.py",
    "golden.py",
    "manifest.py",
    "nested.py",
    "pipe.py",
    "pipeline.py",
    "replay.py",
    "request.py",
    "runner.py",
    "selection.py",
    "selftest.py",
    "step.py",
    "steps/__init__.py",
    "tolerance.py",
    "trace.py",
    "values.py",
)
# The server, beside COMMON.
SERVE = (
    "serve/__init__.py",
    "serve/batch.py",
    "serve/cold.py",
    "serve/command.py",
    "serve/counts.py",
    "serve/datatypes.py",
    "serve/document.py",
    "serve/edges.py",
    "serve/infer.py",
    "serve/intake.py",
    "serve/log.py",
    "serve/metrics.py",
    "serve/padding.py",
    "serve/pool.py",
    "serve/predict.py",
    "serve/proof.py",
    "serve/refusals.py",
    "serve/settings.py",
    "serve/tensors.py",
    "serve/waiting.py",
    "serve/web.py",
    "serve/wire.py",
    "serve/worker.py",
)
# Beside COMMON where the user's own module is called.
FORWARD = ("forward.py",)
# What a step's file imports beside COMMON.
BESIDE: dict[str, tuple[str, ...]] = {
    "argmax": ("scores.py",),
    "categories": ("cells.py",),
    "center_crop": ("pixels.py",),
    "clip": ("per_column.py",),
    "columns": ("cells.py",),
    "crop": ("pixels.py",),
    "decode": ("picture_header.py", "pixels.py"),
    "log_mel": ("mel.py",),
    "lookup": ("cells.py",),
    "nms": ("scores.py",),
    "normalize": ("intervals.py", "per_column.py"),
    "pad": ("pixels.py",),
    "resize": ("opencv.py", "pixels.py"),
    "scale": ("intervals.py",),
    "standardize": ("per_column.py",),
    "threshold": ("scores.py",),
    "top_k": ("scores.py",),
}


def parts(steps: Iterable[str]) -> tuple[str, ...]:
    """Paths of the files for a bundle with these steps, relative, sorted; its engine's file is the runtime's to name."""
    files = set(COMMON)
    for step in steps:
        files |= {f"steps/{step}.py", *BESIDE.get(step, ())}
    return tuple(sorted(files))
