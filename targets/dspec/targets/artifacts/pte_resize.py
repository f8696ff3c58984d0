"""Antialiased resizing as two matrix products, since ExecuTorch has no operator for the bicubic one.

After ATen's UpSampleKernel.cpp, `_compute_indices_weights_aa`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten
Filter = Callable[[torch.Tensor], torch.Tensor]


def cubic(x: torch.Tensor, a: float = -0.5) -> torch.Tensor:
    """Keys' kernel; the antialiased one is Pillow's, with a = -0.5 (the other has -0.75)."""
    x = x.abs()
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, torch.zeros_like(x)))


def linear(x: torch.Tensor) -> torch.Tensor:
    return (1 - x.abs()).clamp(min=0)


def _scale(n_in: Any, n_out: Any, scale: float | None, align: bool) -> Any:
    if align:
        return (n_in - 1) / (n_out - 1) if n_out > 1 else 0.0
    if scale:
        return 1.0 / scale
    if isinstance(n_in, int) and isinstance(n_out, int):
        return n_in / n_out
    # In the graph: ExecuTorch lowers no maximum of sizes.
    return torch.scalar_tensor(n_in, dtype=torch.float32) / torch.scalar_tensor(n_out, dtype=torch.float32)


def weights(
    n_in: Any, n_out: Any, scale: float | None, kernel: Filter, like: torch.Tensor, align: bool
) -> torch.Tensor:
    """(n_out, n_in): each row sums to 1."""
    ratio = _scale(n_in, n_out, scale, align)
    stretch = ratio.clamp(min=1.0) if isinstance(ratio, torch.Tensor) else max(ratio, 1.0)
    out = torch.arange(n_out, dtype=torch.float32, device=like.device)[:, None]
    positions = torch.arange(n_in, dtype=torch.float32, device=like.device)[None, :]
    found = kernel((positions + 0.5 - ratio * (out + 0.5)) / stretch)
    return (found / found.sum(1, keepdim=True)).to(like.dtype)


def _resize(kernel: Filter) -> Callable[..., torch.Tensor]:
    def resized(
        x: torch.Tensor,
        size: Sequence[Any],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:
        rows = weights(x.shape[-2], size[0], scales_h, kernel, x, align_corners)
        columns = weights(x.shape[-1], size[1], scales_w, kernel, x, align_corners)
        return torch.matmul(torch.matmul(rows, x), columns.t())

    return resized


def _resize_vec(kernel: Filter) -> Callable[..., torch.Tensor]:
    def resized(
        x: torch.Tensor, output_size: Any, align_corners: bool, scale_factors: Sequence[float] | None
    ) -> torch.Tensor:
        if scale_factors is None:
            return _resize(kernel)(x, output_size, align_corners)
        size = output_size or [int(n * s) for n, s in zip(x.shape[2:], scale_factors, strict=True)]
        return _resize(kernel)(x, size, align_corners, *scale_factors)

    return resized


TABLE: dict[Any, Callable[..., torch.Tensor]] = {
    aten._upsample_bicubic2d_aa.default: _resize(cubic),
    aten._upsample_bilinear2d_aa.default: _resize(linear),
    aten._upsample_bicubic2d_aa.vec: _resize_vec(cubic),
    aten._upsample_bilinear2d_aa.vec: _resize_vec(linear),
}


def without_resizing(exported: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with antialiased resizing written out, its weights folded; the same program where it has none."""
    if not any(node.target in TABLE for node in exported.graph.nodes):
        return exported
    from executorch.exir.passes.constant_prop_pass import constant_prop_pass

    found: torch.export.ExportedProgram = constant_prop_pass(exported.run_decompositions(TABLE))
    return found
