"""What the runtime offers and refuses, what it pins, and the digest that its files carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from dspec.compiler.bundle import check_digests
from dspec.compiler.fitness import unserved
from dspec.compiler.seal import seal
from dspec.compiler.store import describe
from dspec.spec.errors import GateError, SpecError
from dspec.spec.models import Dim, Fixtures, Model, Resources, Spec, Target, Tensor
from dspec.spec.records import Manifest, Reference
from dspec.targets.pinned import pinned
from dspec.targets.triton.options import Options
from dspec.targets.triton.runtime import RUNTIME

Port = tuple[str, tuple[int | str, ...]]


def spec_of(
    cores: int = 2,
    hardware: str = "host",
    x: Port = ("float32", ("batch", 2)),
    y: Port = ("float32", ("batch", 2)),
    **options: Any,
) -> tuple[Spec, Target]:
    target = Target(runtime="triton", hardware=hardware, resources=Resources(cores=cores), options=options)
    tensors = [{name: Tensor(dtype=port[0], shape=port[1])} for name, port in (("x", x), ("y", y))]  # type: ignore[arg-type]
    model = Model(factory="model.py:build", inputs=tensors[0], outputs=tensors[1], dims={"batch": Dim(max=8)})
    spec = Spec(
        api_version="dspec/v1alpha1",
        name="net",
        model=model,
        fixtures=(Fixtures(file="x.jsonl"),),
        targets={"a": target},
    )
    return spec, target


def test_the_plan_says_which_shape_and_why() -> None:
    (found,) = RUNTIME.candidates(*spec_of())
    assert found.key == "triton/onnxruntime/fp32"
    assert [wanted.builder for wanted in found.artifacts] == ["onnx"]
    assert found.reasons[2] == "batches of up to 8"
    (found,) = RUNTIME.candidates(*spec_of(engine="eager", pipeline="ensemble", y=("float32", (2, "batch"))))
    assert found.key == "triton/eager/fp32"
    assert found.artifacts == ()
    assert "an ensemble of the steps before" in found.reasons[1]
    assert found.reasons[2] == "items run one by one: output y counts items along axis 1, not the first ([2, batch])"
    (found,) = RUNTIME.candidates(*spec_of(shape="onnxruntime", hardware="linux-x86_64-cuda"))
    assert "ONNX Runtime backend" in found.reasons[0]


@pytest.mark.parametrize(
    ("given", "code", "key", "says"),
    [
        ({"preferred_batch": (4, 16), "max_batch": 8}, "E1002", "options.preferred_batch", "preferred_batch has 16 and max_batch is 8"),
        ({"preferred_batch": (16,)}, "E1002", "options.preferred_batch", "preferred_batch has 16 and model.dims.batch ends at 8"),
        ({"preferred_batch": (0,)}, "E1002", "options.preferred_batch", "preferred_batch has 0"),
        ({"engine": "eager", "shape": "onnxruntime"}, "E1001", "options.engine", "engine eager has no place in shape onnxruntime"),
        ({"engine": "eager", "spinning": True}, "E1001", "options.spinning", "option spinning is ONNX Runtime's and the engine is eager"),
        ({"instances": 3}, "E0519", "options.instances", "3 instances of 1 threads on 2 cores"),
        ({"instances": 2, "intra_op_threads": 2}, "E0519", "options.instances", "2 instances of 2 threads on 2 cores"),
        ({"instances": 0}, "E0518", "options.instances", "option instances is 0"),
        ({"max_delay_ms": -1.0}, "E0518", "options.max_delay_ms", "option max_delay_ms is -1.0"),
        ({"max_batch": 4, "y": ("float32", (2, "batch"))}, "E1004", "options.max_batch", "output y counts items along axis 1"),
        ({"hardware": "linux-x86_64-cuda"}, "E1003", "options.shape", "shape python computes on a CPU"),
        ({"x": ("bfloat16", ("batch", 2))}, "E0517", "model.inputs.x.dtype", "input x is bfloat16"),
        ({"opset": 3}, "E0518", "options.opset", "option opset is 3"),
    ],
)  # fmt: skip
def test_what_it_refuses(given: Mapping[str, Any], code: str, key: str, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        RUNTIME.candidates(*spec_of(**given))
    assert [(found.code, found.key) for found in caught.value.diagnostics] == [(code, key)]
    assert says in caught.value.diagnostics[0].message


def test_defaults_filled_in_are_not_asked_for() -> None:
    """As a loaded spec has them."""
    filled = {field.name: field.default for field in fields(Options)}
    for changed in ({"engine": "eager"}, {"pipeline": "ensemble"}, {"max_batch": 1, "y": ("float32", (2, "batch"))}):
        assert RUNTIME.candidates(*spec_of(**filled | changed))


def test_requirements_are_complete() -> None:
    assert {f"{name}=={version(name)}" for name in ("numpy", "orjson", "onnxruntime")} == pinned(
        ("numpy", "orjson", "onnxruntime")
    )
    assert {"torch", "sympy", "mpmath", "jinja2", "markupsafe"} <= {
        line.partition("==")[0] for line in pinned(("torch",))
    }


def _sealed(folder: Path) -> Manifest:
    """A bundle whose model repository is one configuration."""
    spec, target = spec_of()
    path = folder / "model_repository/net/config.pbtxt"
    path.parent.mkdir(parents=True)
    path.write_text('parameters { key: "DSPEC_BUNDLE" value { string_value: "000000000000" } }\n')
    interface = {"inputs": {"x": {"dtype": "float32", "shape": ["batch", 2]}}, "outputs": {"y": {"dtype": "float32", "shape": ["batch", 2]}},
                 "dims": {"batch": {"max": 8}}, "batch": "batch"}  # fmt: skip
    facts: dict[str, Any] = {
        "interface": interface, "weights": [], "command": ["tritonserver"], "model": {}, "toolchain": {}, "metrics": [],
        "options": {"serve": {"shape": "onnxruntime"}}, "stamped": ["model_repository/net/config.pbtxt"],
    }  # fmt: skip
    (candidate,) = RUNTIME.candidates(spec, target)
    reference = Reference(torch="2.13.0", cpu="x86-64-avx2", threads=1, fixtures=1, source="c" * 64)
    return seal(folder, describe(folder), spec, "a", candidate, facts, reference)


def test_the_configuration_carries_the_digest_of_its_own_bundle(tmp_path: Path) -> None:
    manifest = _sealed(tmp_path)
    assert manifest.digests
    path = tmp_path / "model_repository/net/config.pbtxt"
    text = path.read_text()
    assert text.count(manifest.digests.bundle[:12]) == 1
    assert [entry.path for entry in manifest.files if entry.stamp] == ["model_repository/net/config.pbtxt"]
    assert "stamp" not in json.loads((tmp_path / "bundle.json").read_text())["files"][0] or manifest.files[0].stamp
    assert check_digests(tmp_path) == manifest
    other = (
        "f" + manifest.digests.bundle[1:12]
        if manifest.digests.bundle[0] != "f"
        else "0" + manifest.digests.bundle[1:12]
    )
    for changed in (
        text.replace(manifest.stamp, other),
        text.replace(manifest.stamp, "0" * 12),
        text + f"# {manifest.stamp}\n",
        text.replace("DSPEC_BUNDLE", "DSPEC_BUNDLF"),
        text + "\n",
    ):
        path.write_text(changed)
        with pytest.raises(GateError, match="E0712") as caught:
            check_digests(tmp_path)
        assert caught.value.diagnostics[0].notes[0].startswith("model_repository/net/config.pbtxt: ")


def test_a_bundle_for_a_backend_that_is_not_here_is_not_measured(tmp_path: Path) -> None:
    assert "has no onnxruntime backend" in unserved(_sealed(tmp_path))
