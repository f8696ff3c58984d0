"""How the containers of each serving runtime are started, probed and stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

BUNDLE = "/bundle"  # where the image holds the bundle: WORKDIR of the Dockerfile
# Endpoints are withdrawn while the pod is already being stopped: so long it still takes requests that arrive.
DRAIN_S = 10
# Of the service, after its last request: shutting uvicorn down, and each worker (`serve.command`, `serve.pool`).
LAST_S, WORKER_S = 2, 3
SPARE_S = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Port:
    name: str
    number: int
    protocol: str = "http"  # appProtocol of the Service


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """One container that speaks the Open Inference Protocol v2.

    Attributes:
        command: its entry point, `args` what follows; in exec form, so that SIGTERM reaches the server.
        ports: the first answers the probes.
        metrics: name of the port that Prometheus scrapes at /metrics.
        user: uid, never 0.
        pause_s: the kubelet waits so long before SIGTERM; 0: the server itself goes on answering.
        stop_s: from SIGTERM to the last process gone, at most.
        shared_memory: bytes of /dev/shm; 0: the 64 MiB that containers have.
        kserve_arguments: added to those of KServe's own runtime; empty: no InferenceService.
    """

    command: tuple[str, ...]
    args: tuple[str, ...]
    ports: tuple[Port, ...]
    metrics: str
    user: int
    pause_s: int
    stop_s: int
    shared_memory: int = 0
    kserve_arguments: tuple[str, ...] = field(default=())

    @property
    def grace_s(self) -> int:
        """terminationGracePeriodSeconds: counted from before the pause, and longer than stopping takes."""
        return self.pause_s + self.stop_s + SPARE_S


def service_serving(*, deadline_ms: float, workers: int) -> Serving:
    """Of `runtime: fastapi`; the numbers are its options."""
    return Serving(
        command=("python", "-m", "dspec_bundle", "serve"),
        args=("--host", "0.0.0.0", "--port", "8000", "--drain-s", str(DRAIN_S)),
        ports=(Port(name="http", number=8000),),
        metrics="http",
        user=10001,  # as in the Dockerfile
        pause_s=0,
        stop_s=DRAIN_S + math.ceil(deadline_ms / 1000) + LAST_S + WORKER_S * workers,
    )


def triton_serving(
    *,
    repository: str = f"{BUNDLE}/model_repository",
    exit_timeout_s: int = 30,
    shared_memory: int = 1 << 28,
    more: tuple[str, ...] = (),
) -> Serving:
    """Of `runtime: triton`.

    Args:
        repository: the model repository within the image.
        exit_timeout_s: how long the server waits for what is in flight once it is told to stop.
        shared_memory: bytes of /dev/shm: the Python backend passes tensors through it. Counts as memory of the container.
        more: further arguments of tritonserver, here and under KServe.
    """
    strict = (
        # Ready means that every model is loaded; a model that can't be loaded ends the server, and the rollout stops.
        "--strict-readiness=true",
        "--exit-on-error=true",
        # What is served is what config.pbtxt says: nothing is guessed from the model's file.
        "--disable-auto-complete-config",
        f"--exit-timeout-secs={exit_timeout_s}",
        *more,
    )
    return Serving(
        command=("tritonserver",),
        args=(
            f"--model-repository={repository}",
            "--http-port=8000",
            "--grpc-port=8001",
            "--metrics-port=8002",
            *strict,
        ),
        ports=(
            Port(name="http", number=8000),
            Port(name="grpc", number=8001, protocol="grpc"),
            Port(name="metrics", number=8002),
        ),
        metrics="metrics",
        user=1000,  # `triton-server` of NVIDIA's images
        pause_s=DRAIN_S,  # told to stop, Triton refuses what is new at once
        stop_s=exit_timeout_s,
        shared_memory=shared_memory,
        kserve_arguments=strict,
    )
