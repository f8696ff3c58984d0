"""The manifests against what Kubernetes and KServe publish."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from dspec.targets.kubernetes.workload import Workload

kubernetes_validate = pytest.importorskip("kubernetes_validate")

Made = Callable[..., Workload]
Read = Callable[[Workload], dict[str, Any]]
OLDEST, NEWEST = "1.29", "1.37"
INFERENCE_SERVICE = json.loads((Path(__file__).parent / "inference_service.schema.json").read_text())
# Of KServe's mutating webhook: implementations that it rewrites to `model` (`setPredictorModelDefaults`).
REWRITTEN = {
    "huggingface", "lightgbm", "onnx", "paddle", "pmml", "pytorch", "sklearn", "tensorflow", "triton", "xgboost",
}  # fmt: skip


def _inference_service() -> Any:
    folder = f"kubernetes-json-schema/v{NEWEST}.0-local-strict"
    types = kubernetes_validate.utils.schema_contents(f"{folder}/_definitions.json", NEWEST)
    registry: Any = Registry().with_resources(
        [("/api/_definitions.json", Resource.from_contents(types)), (types["$id"], Resource.from_contents(types))]
    )
    return jsonschema.Draft202012Validator(INFERENCE_SERVICE, registry=registry)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_kubernetes_takes_them(variation: Workload, read: Read, version: str) -> None:
    found = read(variation)
    for name in ("deployment.yaml", "service.yaml"):
        assert kubernetes_validate.validate(found[name], version, strict=True) == version


def test_kserve_takes_it(variation: Workload, read: Read) -> None:
    found = read(variation)
    if variation.component == "triton":
        _inference_service().validate(found["inference_service.yaml"])
    else:
        assert "inference_service.yaml" not in found


def test_the_schemas_are_strict(made: Made, read: Read) -> None:
    found = read(made("triton"))
    found["deployment.yaml"]["spec"]["template"]["spec"]["containers"][0]["readyProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="readyProbe"):
        kubernetes_validate.validate(found["deployment.yaml"], NEWEST, strict=True)
    model = found["inference_service.yaml"]["spec"]["predictor"]["model"]
    model["startupProbe"]["httpGet"]["url"] = "/"
    with pytest.raises(jsonschema.ValidationError, match="url"):
        _inference_service().validate(found["inference_service.yaml"])
    del model["startupProbe"], model["modelFormat"]
    with pytest.raises(jsonschema.ValidationError, match="'modelFormat' is a required property"):
        _inference_service().validate(found["inference_service.yaml"])


@pytest.mark.parametrize("memory", ["2GiB", None])
def test_kserves_webhook_has_nothing_to_add(made: Made, read: Read, memory: str | None) -> None:
    """Rule by rule, what `InferenceServiceDefaulter` and the merge with the runtime kserve-tritonserver would fill in."""
    found = read(made("triton", memory=memory, cores=4))["inference_service.yaml"]
    predictor = found["spec"]["predictor"]
    assert REWRITTEN.isdisjoint(predictor)
    assert "containers" not in predictor  # exactly one implementation
    assert predictor["model"]["modelFormat"] == {"name": "triton"}
    assert predictor["model"]["protocolVersion"] == "v2"
    assert predictor["automountServiceAccountToken"] is False
    assert found["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Standard"
    resources = predictor["model"]["resources"]
    assert resources["requests"] == resources["limits"] == {"cpu": "4", "memory": "2Gi"}


def test_what_is_to_be_set_is_named_as_the_head_of_the_file_says(made: Made, read: Read) -> None:
    from dspec.targets.kubernetes.lay import manifests

    found = made("triton")
    text = manifests(found)["inference_service.yaml"]
    model = read(found)["inference_service.yaml"]["spec"]["predictor"]["model"]
    assert f"'s|{model['storageUri']}|" in text
    assert model["image"].startswith(f"{found.name}:")
    assert f"'s|image: {found.name}:.*|" in text
    assert not model["storageUri"].startswith(("s3://", "gs://", "pvc://", "https://", "/"))  # forgotten, it is refused
