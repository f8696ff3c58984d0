"""The runtime's own promises: what it offers, refuses and pins."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import pytest

from dspec.compiler.drift import drift, psi
from dspec.spec.errors import SpecError
from dspec.spec.models import Fixtures, Model, Resources, Spec, Target, Tensor
from dspec.targets.fastapi.dockerfile import dockerfile
from dspec.targets.fastapi.requirements import requirements
from dspec.targets.fastapi.runtime import RUNTIME


def spec_of(cores: int = 2, dtype: Any = "float32", **options: Any) -> tuple[Spec, Target]:
    target = Target(runtime="fastapi", resources=Resources(cores=cores), options=options)
    model = Model(factory="model.py:build", inputs={"x": Tensor(dtype=dtype, shape=(2,))})
    spec = Spec(
        api_version="dspec/v1alpha1",
        name="net",
        model=model,
        fixtures=(Fixtures(file="x.jsonl"),),
        targets={"a": target},
    )
    return spec, target


def test_the_plan_says_which_engine_and_why() -> None:
    (found,) = RUNTIME.candidates(*spec_of())
    assert found.key == "fastapi/onnxruntime/fp32"
    assert [wanted.builder for wanted in found.artifacts] == ["onnx"]
    (found,) = RUNTIME.candidates(*spec_of(engine="eager", workers=2))
    assert found.key == "fastapi/eager/fp32"
    assert found.artifacts == ()
    assert any("the module's own sources: model.py:build is in the spec's folder" in reason for reason in found.reasons)
    assert any("2 workers" in reason for reason in found.reasons)
    (found,) = RUNTIME.candidates(*spec_of(engine="eager", eager_from="program"))
    assert any(
        "the exported program, not the module's sources, as `eager_from` asks" in reason for reason in found.reasons
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"workers": 3}, "3 workers of 1 threads on 2 cores"),
        ({"workers": 2, "intra_op_threads": 2}, "2 workers of 2 threads on 2 cores"),
        ({"workers": 0}, "option workers is 0"),
        ({"max_batch": 0}, "option max_batch is 0"),
        ({"hang_s": 0.0}, "option hang_s is 0.0"),
        ({"max_delay_ms": -1.0}, "option max_delay_ms is -1.0"),
        ({"opset": 3}, "option opset is 3"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        RUNTIME.candidates(*spec_of(**options))
    assert caught.value.diagnostics[0].key.startswith("options.")


def test_a_dtype_without_numpy() -> None:
    with pytest.raises(SpecError, match="input x is bfloat16"):
        RUNTIME.candidates(*spec_of(dtype="bfloat16"))


def test_requirements_are_complete() -> None:
    """They are installed without resolving, so each dependency must stand there."""
    found = {line.partition("==")[0]: line.partition("==")[2] for line in requirements("onnxruntime")}
    assert {
        "fastapi",
        "starlette",
        "pydantic-core",
        "anyio",
        "idna",
        "uvicorn",
        "click",
        "h11",
        "uvloop",
        "httptools",
    } <= set(found)
    assert found["fastapi"] == version("fastapi")
    assert "torch" not in found
    assert {"torch", "sympy", "networkx"} <= {line.partition("==")[0] for line in requirements("eager")}


def test_the_dockerfile() -> None:
    lines = dockerfile("net", "3.11").splitlines()
    directives = [line for line in lines if line and not line.startswith(("#", " "))]
    assert [line.split()[0] for line in directives] == [
        "ARG", "FROM", "RUN", "WORKDIR", "COPY", "RUN", "COPY", "USER", "ENV", "EXPOSE", "HEALTHCHECK", "CMD",
    ]  # fmt: skip
    assert directives[0] == "ARG BASE=python:3.11-slim-trixie"  # neither Python's minor nor Debian's release floats
    assert directives[1] == "FROM ${BASE}"
    assert "--no-cache-dir --no-deps" in directives[5]
    assert "USER 10001:10001" in directives
    assert json.loads(directives[-1].removeprefix("CMD ")) == [
        "python", "-m", "dspec_bundle", "serve", "--host", "0.0.0.0", "--port", "8000",
    ]  # fmt: skip
    (check,) = (line.strip() for line in lines if line.startswith("  CMD "))
    compile(json.loads(check.removeprefix("CMD "))[2], "healthcheck", "exec")


def test_pytorch_in_the_image_is_the_one_for_cpus() -> None:
    text = dockerfile("net", "3.11", "eager")
    index = text.index("ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu")
    assert text.index("FROM ") < index < text.index("RUN pip install")  # an ARG before FROM is not seen after it
    assert "PIP_EXTRA_INDEX_URL" not in dockerfile("net", "3.11", "onnxruntime")


def test_variations_tell_batching_from_rewrites() -> None:
    options = {"optimization": "all", "serve": {"max_batch": 16}}
    found = RUNTIME.variations(options)
    assert list(found) == ["the service as it ships", "no batching", "optimization basic", "optimization disabled"]
    assert found["no batching"]["serve"]["max_batch"] == 1
    assert RUNTIME.variations({"serve": {"max_batch": 1}}) == {}


def test_the_index() -> None:
    assert psi([0.5, 0.5], [0.5, 0.5]) == 0
    assert psi([0.5, 0.5, 0.0], [0.4, 0.6, 0.0]) == pytest.approx(0.0405, abs=1e-4)  # by hand: 0.1·ln 1.25 + 0.1·ln 1.2
    assert psi([1.0, 0.0], [0.0, 1.0]) > 10


def test_drift_of_another_bundle(bundles: Any) -> None:
    line = 'dspec_values_total{bundle="cccccccccccc",bucket="+Inf",series="size.seq"} 5.0\n'
    with pytest.raises(SpecError, match="E0721: no count of bundle bbbbbbbbbbbb"):
        drift(bundles("texts"), [line], "b" * 12)
    with pytest.raises(SpecError, match=r"E0720: .* holds no statistics"):
        drift(bundles("mixed"), [line], "b" * 12)


def test_drift_of_values_that_moved(bundles: Any) -> None:
    same = {"3": 500, "4": 250, "+Inf": 250}
    moved = {"3": 100, "4": 100, "+Inf": 800}

    def text(counts: dict[str, int]) -> str:
        return "".join(
            f'dspec_values_total{{bundle="{"b" * 12}",bucket="{bucket}",series="size.seq"}} {count}\n'
            for bucket, count in counts.items()
        )

    def verdict(*texts: str) -> str:
        return next(one.verdict for one in drift(bundles("texts"), texts, "b" * 12) if one.series == "size.seq")

    assert verdict(text(same)) == "no shift"
    assert verdict(text(same), text(same)) == "no shift"
    assert verdict(text(moved)) == "major shift"
    assert verdict(text({"3": 3, "4": 1, "+Inf": 9})) == "too few values"
