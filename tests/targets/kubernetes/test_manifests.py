"""The manifests hold together, say what the target says, and are the same bytes every time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dspec.spec.models import Fixtures, Model, Resources, Slo, Spec, Target, Tensor
from dspec.targets.kubernetes.lay import lay_kubernetes, manifests
from dspec.targets.kubernetes.serving import LAST_S, WORKER_S, triton_serving
from dspec.targets.kubernetes.workload import Workload
from dspec.targets.protocol import Candidate, Job

Made = Callable[..., Workload]
Read = Callable[[Workload], dict[str, Any]]
PORTS = {"fastapi": {"http": 8000}, "triton": {"http": 8000, "grpc": 8001, "metrics": 8002}}


def _pod(found: dict[str, Any]) -> Any:
    return found["deployment.yaml"]["spec"]["template"]


def _container(found: dict[str, Any]) -> Any:
    (container,) = _pod(found)["spec"]["containers"]
    return container


def test_the_files(made: Made) -> None:
    assert list(manifests(made())) == ["README.md", "deployment.yaml", "kustomization.yaml", "service.yaml"]
    assert list(manifests(made("triton")))[-1] == "inference_service.yaml"


def test_they_are_laid_into_the_bundle(made: Made, tmp_path: Path) -> None:
    target = Target(runtime="triton", hardware="linux-x86_64", resources=Resources(cores=2, memory=2 << 30))
    spec = Spec(
        api_version="dspec/v1alpha1",
        name="minilm-embedder",
        version="3",
        owner="search-platform",
        model=Model(factory="model.py:build", inputs={"x": Tensor(dtype="float32", shape=(2,))}),
        fixtures=(Fixtures(file="x.jsonl"),),
        targets={"service": target},
    )
    candidate = Candidate(runtime="triton", engine="onnxruntime", variant="fp32", artifacts=())
    program: Any = None  # what runs is not read
    job = Job(spec=spec, target_id="service", target=target, candidate=candidate, options=None, program=program, artifacts=())  # fmt: skip
    lay_kubernetes(tmp_path, job, triton_serving())
    laid = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "kubernetes").iterdir()}
    assert laid == manifests(made("triton"))


def test_what_refers_to_what(variation: Workload, read: Read) -> None:
    found = read(variation)
    deployment, service, kustomization = (found[f"{name}.yaml"] for name in ("deployment", "service", "kustomization"))
    pod, container = _pod(found), _container(found)
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert service["spec"]["selector"] == selector
    assert "app.kubernetes.io/version" not in selector  # a selector can never be changed
    assert {key.partition("/")[0] for key in selector} == {"app.kubernetes.io"}
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert named == PORTS[variation.component]
    assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == named
    mounted = [mount["name"] for mount in container["volumeMounts"]]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == mounted
    assert set(kustomization["resources"]) == {"deployment.yaml", "service.yaml"}
    (image,) = kustomization["images"]
    assert container["image"] == f"{image['name']}:{image['newTag']}"
    assert {deployment["metadata"]["name"], service["metadata"]["name"], image["name"]} == {variation.name}
    scraped = pod["metadata"]["annotations"]
    assert int(scraped["prometheus.io/port"]) == named[variation.serving.metrics]


def test_probes(variation: Workload, read: Read) -> None:
    found = read(variation)
    container = _container(found)
    for probe, path in (("startup", "ready"), ("readiness", "ready"), ("liveness", "live")):
        assert container[f"{probe}Probe"]["httpGet"] == {"path": f"/v2/health/{path}", "port": "http"}
    startup = container["startupProbe"]
    starting = startup["periodSeconds"] * startup["failureThreshold"]
    assert starting == 300
    assert found["deployment.yaml"]["spec"]["progressDeadlineSeconds"] > 2 * starting
    assert container["livenessProbe"]["periodSeconds"] * container["livenessProbe"]["failureThreshold"] >= 60


def test_security(variation: Workload, read: Read) -> None:
    pod, container = _pod(read(variation))["spec"], _container(read(variation))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] >= 1000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]


@pytest.mark.parametrize(
    ("memory", "resources"),
    [
        ("2GiB", {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}),
        (1_500_000_000, {"requests": {"cpu": "2", "memory": "1500M"}, "limits": {"memory": "1500M"}}),
        (None, {"requests": {"cpu": "2"}}),
    ],
)
def test_resources(made: Made, read: Read, memory: Any, resources: Any) -> None:
    """Memory is as much as requested; cores are a share that a limit would only throttle."""
    assert _container(read(made(memory=memory)))["resources"] == resources


@pytest.mark.parametrize("memory", ["2GiB", None])
def test_a_gpu_is_asked_for_where_the_profile_has_one(made: Made, read: Read, memory: str | None) -> None:
    limits = _container(read(made("triton", hardware="linux-x86_64-cuda", memory=memory)))["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == 1
    assert "nvidia.com/gpu" not in _container(read(made("triton")))["resources"]["limits"]


@pytest.mark.parametrize(
    ("hardware", "selector"),
    [
        ("linux-x86_64", {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}),
        ("linux-x86_64-cuda", {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}),
        ("linux-arm64", {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}),
        ("host", {"kubernetes.io/os": "linux"}),
        ("our-racks", {"kubernetes.io/os": "linux"}),
    ],
)
def test_the_nodes(made: Made, read: Read, hardware: str, selector: dict[str, str]) -> None:
    found = made(hardware=hardware)
    assert _pod(read(found))["spec"]["nodeSelector"] == selector
    says = "hardware our-racks is a profile of your own" in manifests(found)["deployment.yaml"]
    assert says == (hardware == "our-racks")


def test_the_service_is_not_killed_while_it_drains(made: Made, read: Read) -> None:
    from dspec.targets.shipped.__main__ import _parser
    from dspec.targets.shipped.serve.command import GRACE_S
    from dspec.targets.shipped.serve.pool import STOP_S

    assert (LAST_S, WORKER_S) >= (GRACE_S, STOP_S)
    found = read(made())
    container = _container(found)
    assert container["command"] == ["python", "-m", "dspec_bundle", "serve"]
    options = _parser().parse_args(["serve", *container["args"]])
    assert (options.host, options.port) == ("0.0.0.0", 8000)
    stopping = options.drain_s + 30 + GRACE_S + 2 * STOP_S  # a deadline of 30 s, and two workers
    assert _pod(found)["spec"]["terminationGracePeriodSeconds"] > stopping
    assert options.drain_s >= 10  # it answers on while endpoints are withdrawn, so nothing has to wait before SIGTERM
    assert "lifecycle" not in container


def test_triton_is_not_told_to_stop_while_requests_arrive(made: Made, read: Read) -> None:
    found = read(made("triton"))
    container = _container(found)
    (word, seconds) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert (word, int(seconds) >= 10) == ("sleep", True)
    given = dict(argument.split("=") for argument in container["args"] if "=" in argument)
    waits = int(seconds) + int(given["--exit-timeout-secs"])
    assert _pod(found)["spec"]["terminationGracePeriodSeconds"] > waits
    assert container["command"] == ["tritonserver"]
    assert given["--model-repository"] == "/bundle/model_repository"
    assert given["--strict-readiness"] == given["--exit-on-error"] == "true"
    assert "--disable-auto-complete-config" in container["args"]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in container["volumeMounts"]
    (memory,) = (volume for volume in _pod(found)["spec"]["volumes"] if volume["name"] == "shared-memory")
    assert memory["emptyDir"] == {"medium": "Memory", "sizeLimit": "256Mi"}


def test_an_owner_may_write_anything(made: Made, read: Read) -> None:
    owner = "a: \"b\"\n# {{ c }} & <d> \\ 'e' é"
    found = read(made("triton", owner=owner))
    assert found["deployment.yaml"]["metadata"]["annotations"]["owner"] == owner
    assert _pod(found)["metadata"]["annotations"]["owner"] == owner
    assert found["inference_service.yaml"]["metadata"]["annotations"]["owner"] == owner


def test_a_limit_changes_no_byte(made: Made) -> None:
    """A limit is judged: one that is tightened must not make another bundle, which would have to be measured anew."""
    assert manifests(made(slo=Slo(cold_start_s=3))) == manifests(made())


def test_the_same_bytes_under_another_hash_seed(made: Made) -> None:
    code = (
        "import runpy; made = runpy.run_path('conftest.py');"
        "print([made['manifests'](made['make_workload'](**one)) for one in made['VARIATIONS'].values()])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parent,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
    assert b"kind: Deployment" in seen.pop()
