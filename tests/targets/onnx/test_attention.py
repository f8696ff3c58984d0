"""Attention as PyTorch computes it, rows that see nothing included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attend

SIZES = ({"batch": 1, "seq": 2, "even": 2}, {"batch": 3, "seq": 5, "even": 4}, {"batch": 16, "seq": 33, "even": 20})
INPUTS = {
    "query": ("float32", ["batch", 4, "seq", 8]),
    "key": ("float32", ["batch", 4, "even", 8]),
    "value": ("float32", ["batch", 4, "even", 6]),
    "mask": ("bool", ["batch", "seq", "even"]),
    "bias": ("float32", ["batch", "seq", "even"]),
}
FORMS = ("plain", "bool mask", "float mask", "causal", "grouped", "three axes")


class Forms(torch.nn.Module):
    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor, bias: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        hidden = torch.where(mask, bias, -torch.inf)
        return (
            attend(query, key, value),
            attend(query, key, value, attn_mask=mask[:, None]),
            attend(query, key, value, attn_mask=hidden[:, None]),
            attend(query, key, value, is_causal=True),
            attend(query, key[:, :2], value[:, :2], attn_mask=mask[:, None], scale=0.3, enable_gqa=True),
            attend(query[:, 0], key[:, 0], value[:, 0], attn_mask=mask),
        )


def _port(form: str) -> tuple[str, list[int | str]]:
    return ("float32", ["batch", "seq", 6] if form == "three axes" else ["batch", 4, "seq", 6])


@pytest.fixture(scope="module")
def forms(module_lab: Any) -> Any:
    names = {form.replace(" ", "_"): _port(form) for form in FORMS}
    program, artifact = module_lab.build(Forms(), INPUTS, names)
    return program, module_lab.session(artifact)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_form_agrees_with_eager(forms: Any, lab: Any, sizes: dict[str, int]) -> None:
    program, session = forms
    assert lab.worst(program, Forms(), session, sizes) < 1e-6


@pytest.mark.parametrize("form", ["bool_mask", "float_mask", "grouped", "three_axes"])
def test_a_row_that_sees_nothing_answers_zero(forms: Any, lab: Any, form: str) -> None:
    program, session = forms
    sizes = {"batch": 2, "seq": 3, "even": 4}
    feeds = {
        name: lab.example(port.dtype, port.shape, sizes).numpy() for name, port in program.interface.inputs.items()
    }
    feeds["mask"][:] = True
    feeds["mask"][1, 0] = False
    (got,) = session.run([form], feeds)
    assert np.all(got[1, ..., 0, :] == 0)
    assert np.all(got[1, ..., 1, :] != 0)
