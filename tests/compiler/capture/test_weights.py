"""Checkpoints as they come in the wild: loaded where every key fits, refused with counts and names otherwise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from dspec.compiler.capture.loading import load_weights
from dspec.compiler.capture.tensors import tensor_digests
from dspec.spec.errors import ExportError
from dspec.spec.models import Weights


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(2))
        self.register_buffer("table", torch.arange(3.0), persistent=False)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight


def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    return {key: torch.randn_like(value) for key, value in Net().state_dict().items()}


def prefixed(prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + key: value for key, value in state().items()}


def load(path: Path, module: nn.Module | None = None, **weights: Any) -> tuple[nn.Module, str]:
    module = module or Net()
    warnings = load_weights(module, Weights(path=path.name, **weights), path)
    assert {(warning.code, warning.severity) for warning in warnings} <= {("E0416", "note"), ("E0417", "warning")}
    return module, "\n".join(str(warning) for warning in warnings)


def refused(path: Path, module: nn.Module | None = None, **weights: Any) -> str:
    with pytest.raises(ExportError) as caught:
        load(path, module, **weights)
    return str(caught.value)


GOOD: dict[str, tuple[Callable[[], Any], dict[str, Any], list[str]]] = {
    "bare": (state, {}, []),
    "data parallel": (lambda: prefixed("module."), {}, ["dropped wrapper prefixes (module.)"]),
    "compiled": (lambda: prefixed("_orig_mod."), {}, ["dropped wrapper prefixes (_orig_mod.)"]),
    "both": (lambda: prefixed("_orig_mod.module."), {}, ["_orig_mod., module."]),
    "lightning": (
        lambda: {"state_dict": prefixed("model."), "epoch": 3, "optimizer_states": []},
        {},
        ["took the container state_dict", "dropped the prefix model.", "left out epoch, optimizer_states"],
    ),
    "model": (
        lambda: {"model": state(), "optimizer": {"state": {0: {"step": torch.ones(1)}}, "param_groups": []}},
        {},
        ["took the container model", "left out optimizer"],
    ),
    "model_state": (lambda: {"model_state": state()}, {}, ["took the container model_state"]),
    "model_state_dict": (lambda: {"model_state_dict": state()}, {}, ["took the container model_state_dict"]),
    "odd container": (lambda: {"generator": state()}, {}, ["took the container generator"]),
    "averages beside": (
        lambda: {"model": state(), "model_ema": {k: v * 2 for k, v in state().items()}},
        {},
        ["took the container model", "model_ema would fit too", "left out model_ema"],
    ),
    "chosen by prefix": (
        lambda: {"model": {k: v * 2 for k, v in state().items()}, "model_ema": state()},
        {"prefix": "model_ema."},
        ["took the container model_ema", "left out model"],
    ),
    "loss keys ignored": (
        lambda: state() | {"loss.centers": torch.ones(3)},
        {"ignore": ("loss.*",)},
        ["left out 1 keys that model.weights.ignore names"],
    ),
    "prefix given": (lambda: prefixed("student.net."), {"prefix": "student.net."}, []),
    "half": (
        lambda: {k: v.half() for k, v in state().items()},
        {"cast": True},
        ["cast 5 tensors (float16 → float32)"],
    ),
    "transient buffer stored": (
        lambda: state() | {"table": torch.arange(3.0)},
        {},
        ["left out table, which the module computes itself"],
    ),
}


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_loads(name: str, legacy: bool, tmp_path: Path) -> None:
    make, weights, said = GOOD[name]
    path = tmp_path / "w.pt"
    torch.save(make(), path, _use_new_zipfile_serialization=not legacy)
    module, warnings = load(path, **weights)
    for key, value in module.state_dict().items():
        wanted = state()[key].half().float() if name == "half" else state()[key]
        assert torch.equal(value, wanted), key
    for words in said:
        assert words in warnings
    assert bool(said) == bool(warnings)


def test_safetensors_and_npz(tmp_path: Path) -> None:
    save_file(state(), tmp_path / "w.safetensors")
    arrays: dict[str, Any] = {key: value.numpy() for key, value in state().items()}
    np.savez(tmp_path / "w.npz", **arrays)
    for name in ("w.safetensors", "w.npz"):
        module, warnings = load(tmp_path / name)
        assert torch.equal(module.state_dict()["first.weight"], state()["first.weight"])
        assert warnings == ""


def test_wrapped_in_the_factory(tmp_path: Path) -> None:
    outer = nn.Module()
    outer.add_module("encoder", Net())
    torch.save(state(), tmp_path / "w.pt")
    _, warnings = load(tmp_path / "w.pt", outer)
    assert "added the prefix encoder." in warnings


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    table = torch.randn(5, 4)
    save_file({"embed.weight": table}, tmp_path / "w.safetensors")
    module = Tied()
    _, warnings = load(tmp_path / "w.safetensors", module)
    assert torch.equal(module.head.weight, table)
    assert module.head.weight is module.embed.weight
    assert warnings == ""
    digests = tensor_digests(module.state_dict())
    assert [digest.name for digest in digests] == ["embed.weight"]


def test_tied_in_the_module_but_not_in_the_file(tmp_path: Path) -> None:
    torch.save({"embed.weight": torch.zeros(5, 4), "head.weight": torch.ones(5, 4)}, tmp_path / "w.pt")
    said = refused(tmp_path / "w.pt", Tied())
    assert "the module ties embed.weight and head.weight, the file holds different values for them" in said


def test_nothing_matches(tmp_path: Path) -> None:
    torch.save({f"other.{n}": torch.ones(1) for n in range(7)}, tmp_path / "w.pt")
    said = refused(tmp_path / "w.pt")
    assert "0 of the module's 5 tensors are there; 5 missing, 7 unexpected" in said
    assert "missing in the file: first.bias, first.weight, scale, second.bias, second.weight" in said
    assert "unexpected in the file: other.0, other.1, other.2, other.3, other.4 … and 2 more" in said
    assert "model.weights.ignore leaves keys out" in said


def test_a_single_missing_key_is_an_error(tmp_path: Path) -> None:
    torch.save({key: value for key, value in state().items() if key != "second.bias"}, tmp_path / "w.pt")
    said = refused(tmp_path / "w.pt")
    assert "4 of the module's 5 tensors are there; 1 missing, 0 unexpected" in said


def test_a_prefix_that_no_key_has(tmp_path: Path) -> None:
    torch.save(state(), tmp_path / "w.pt")
    assert "no key begins with net." in refused(tmp_path / "w.pt", prefix="net.")


def test_two_unknown_containers_fit(tmp_path: Path) -> None:
    torch.save({"student": state(), "teacher": state()}, tmp_path / "w.pt")
    said = refused(tmp_path / "w.pt")
    assert "several containers fit the module: student, teacher" in said
    assert 'model.weights.prefix: "student."' in said


def test_shapes(tmp_path: Path) -> None:
    torch.save(state() | {"first.weight": torch.ones(4, 9)}, tmp_path / "w.pt")
    said = refused(tmp_path / "w.pt")
    assert "first.weight: [4, 9] in the file, [4, 3] in the module" in said
    assert "check model.config" in said


@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_are_never_cast_in_silence(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.save(state() | {"first.weight": torch.ones(4, 3, dtype=dtype)}, tmp_path / "w.pt")
    said = refused(tmp_path / "w.pt")
    assert f"first.weight: {str(dtype).removeprefix('torch.')} in the file, float32 in the module" in said
    assert "model.weights.cast: true" in said


def test_batch_norm_counters_of_old_checkpoints(tmp_path: Path) -> None:
    norm = nn.BatchNorm1d(3)
    torch.save({k: v for k, v in norm.state_dict().items() if "num_batches" not in k}, tmp_path / "w.pt")
    load(tmp_path / "w.pt", nn.BatchNorm1d(3))


def test_not_finite(tmp_path: Path) -> None:
    torch.save(state() | {"first.bias": torch.tensor([1.0, float("nan"), 0, 0])}, tmp_path / "w.pt")
    _, warnings = load(tmp_path / "w.pt")
    assert "1 tensors hold NaN or infinity: first.bias" in warnings


class Evil:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('the pickle ran')",))


def test_pickled_module(tmp_path: Path) -> None:
    torch.save(Net(), tmp_path / "w.pt")
    said = refused(tmp_path / "w.pt")
    assert "E0411" in said
    assert "Net: loading it would run code, so it is refused" in said
    assert "model.state_dict()" in said


def test_malicious_pickle_does_not_run(tmp_path: Path) -> None:
    torch.save({"a": Evil()}, tmp_path / "w.pt")
    assert "E0411" in refused(tmp_path / "w.pt")


def test_torchscript(tmp_path: Path) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own remark about TorchScript
        torch.jit.save(torch.jit.script(Net()), tmp_path / "w.pt")
    assert "is a TorchScript archive" in refused(tmp_path / "w.pt")


BAD = {
    "empty": (b"", "is empty"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "is a Git LFS pointer"),
    "html": (b"<!DOCTYPE html><html>404</html>", "is a web page"),
    "keras": (b"\x89HDF\r\n\x1a\n", "is an HDF5 file"),
    "index": (b'{"metadata": {}}', "is JSON, perhaps the index of a sharded checkpoint"),
    "npy": (b"\x93NUMPY", "is one .npy array without names"),
    "noise": (b"hello world, hello world", "is no checkpoint: it begins with b'hello"),
    "zip cut": (b"PK\x03\x04rest", "is a truncated archive"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_file_is(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    (tmp_path / "w.bin").write_bytes(content)
    assert words in refused(tmp_path / "w.bin")


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors", "npz"])
def test_truncated(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "w"
    if kind == "safetensors":
        save_file(state(), path)
    elif kind == "npz":
        np.savez(tmp_path / "w.npz", a=np.ones(99))
        (tmp_path / "w.npz").rename(path)
    else:
        torch.save(state(), path, _use_new_zipfile_serialization=kind == "zip")
    whole = path.read_bytes()
    for share in (0.3, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        said = refused(path)
        assert "truncated" in said or "can't be read" in said, (share, said)


def test_objects_in_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", a=np.array([{}], dtype=object))
    assert "save plain numeric arrays" in refused(tmp_path / "w.npz")


def test_no_tensors(tmp_path: Path) -> None:
    torch.save({"epoch": 3}, tmp_path / "w.pt")
    assert "holds no tensors" in refused(tmp_path / "w.pt")


def test_digests_of_known_tensors() -> None:
    found = tensor_digests({"b": torch.tensor([3.0, 4.0]), "a": torch.tensor([1, 2], dtype=torch.int16)})
    assert [(d.name, d.dtype, d.shape, d.norm, d.mean) for d in found] == [
        ("a", "int16", (2,), 2.23607, 1.5),
        ("b", "float32", (2,), 5.0, 3.5),
    ]
    assert found[0].sha256 == hashlib.sha256(b"\x01\x00\x02\x00").hexdigest()


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    import dspec.compiler.capture.tensors as tensors

    value = {"w": torch.arange(1000.0).reshape(10, 100).t(), "h": torch.ones(7, dtype=torch.bfloat16)}
    whole = tensor_digests(value)
    monkeypatch.setattr(tensors, "_CHUNK", 7)
    assert [d.sha256 for d in tensor_digests(value)] == [d.sha256 for d in whole]
    assert len(whole) == 2


def test_names_that_the_modules_own_hooks_translate(tmp_path: Path) -> None:
    new = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
    old = {"bias": torch.ones(4), "weight_g": torch.full((4, 1), 2.0), "weight_v": torch.ones(4, 3)}
    torch.save(old, tmp_path / "w.pt")
    _, warnings = load(tmp_path / "w.pt", new)
    assert "the module's own hooks translated 4 names" in warnings
    assert torch.allclose(new.weight.norm(dim=1), torch.tensor(2.0))
