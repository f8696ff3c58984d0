"""The servers of the bench: how each is installed, started, asked and stopped."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import venv
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dspec" / "bench-serving"
SHARED = ("onnxruntime==1.32.0", "tokenizers", "pillow", "numpy", "orjson", "uvloop<0.22", "httptools")
PEERS = {
    name: (pinned, *SHARED)
    for name, pinned in (
        ("litserve", "litserve==0.2.19"),
        ("bentoml", "bentoml==1.4.40"),
        ("mlserver", "mlserver==1.7.1"),
    )
}
REST = ("schemathesis",)
WORDS = "the quick brown fox runs over a lazy dog again"  # ten words: twelve tokens


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a bundle is asked: `kind` is text or image, `item` the text or the photograph in base64."""

    kind: str
    item: str
    body: bytes
    rows: int  # the greatest batch of the bundle, 16 at most


def subject(bundle: Path) -> Subject:
    """By the one field of the bundle's request; photographs are the first golden one."""
    manifest = json.loads((bundle / "bundle.json").read_text())
    (field,) = json.loads((bundle / "pipeline" / "pipeline.json").read_text())["request"].items()
    name, kind = field[0], field[1]["type"]
    rows = min(16, manifest["interface"]["dims"]["batch"]["max"])
    if kind != "image":
        return Subject(kind=kind, item=WORDS, body=json.dumps({name: WORDS}).encode(), rows=rows)
    request = json.loads((bundle / "golden" / "0000" / "request.json").read_text())
    photo = request[name]["file"] if isinstance(request[name], dict) else request[name]
    item = base64.b64encode((bundle / "golden" / "0000" / photo).read_bytes()).decode()
    return Subject(kind=kind, item=item, body=json.dumps({name: {"base64": item}}).encode(), rows=rows)


@dataclass(frozen=True, kw_only=True)
class Server:
    """`body` is one request; `ready` answers 200 once requests are taken."""

    name: str
    command: tuple[str, ...]
    port: int
    path: str
    body: bytes
    ready: str
    folder: Path
    variables: dict[str, str]
    content_type: str = "application/json"
    header: str = ""


def environment(name: str, packages: tuple[str, ...]) -> Path:
    """The interpreter of an environment that holds the packages."""
    folder = CACHE / name
    ready, wanted = folder / "ready", "\n".join(packages)
    if not ready.is_file() or ready.read_text() != wanted:
        venv.create(folder, with_pip=True, clear=not ready.is_file())
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *packages], check=True)
        ready.write_text(wanted)
    return folder / "bin" / "python"


def ours(bundle: Path, python: Path, port: int = 8301) -> Server:
    command = (str(python), "-B", "-m", "dspec_bundle", "serve", "--port", str(port), "--no-access-log")
    body = subject(bundle).body
    return Server(
        name="dspec",
        command=command,
        port=port,
        path="/predict",
        body=body,
        ready="/v2/health/ready",
        folder=bundle,
        variables={},
    )


def ours_by_workers(server: Server, workers: int) -> Server:
    """The same bundle, its threads given to as many workers of one thread each."""
    return replace(server, name=f"dspec, {workers} workers", command=(*server.command, "--workers", str(workers)))


def ours_binary(server: Server, ids: list[int]) -> Server:
    """The same service, asked for the model alone in the binary extension."""
    import struct

    count = len(ids)
    raw = struct.pack(f"<{count}q", *ids) + struct.pack(f"<{count}q", *[1] * count)
    ports = [
        {"name": name, "datatype": "INT64", "shape": [1, count], "parameters": {"binary_data_size": 8 * count}}
        for name in ("input_ids", "attention_mask")
    ]
    head = json.dumps({"inputs": ports, "parameters": {"binary_data_output": True}}).encode()
    name = json.loads((server.folder / "bundle.json").read_text())["name"]
    return Server(
        name="dspec, binary tensors", command=server.command, port=server.port, path=f"/v2/models/{name}.model/infer", body=head + raw,
        ready=server.ready, folder=server.folder, variables={}, content_type="application/octet-stream",
        header=f"inference-header-content-length: {len(head)}\r\n",
    )  # fmt: skip


def peers(bundle: Path, threads: int) -> list[Server]:
    lit, bento, ml = (environment(name, packages) for name, packages in PEERS.items())
    tokenizers = sorted((bundle / "pipeline").rglob("tokenizer.json"))
    asked = subject(bundle)
    shared = {
        "KIND": asked.kind,
        "MODEL": str(bundle / "model" / "model.onnx"),
        "TOKENIZER": str(tokenizers[0]) if tokenizers else "",
        "THREADS": str(threads),
        "PYTHONPATH": str(HERE / "peers"),
    }
    shared |= {"BENTOML_DO_NOT_TRACK": "True", "HOME": str(CACHE)}
    text = json.dumps({"item": asked.item}).encode()
    tensor = {"name": "item", "shape": [1], "datatype": "BYTES", "data": [asked.item]}
    return [
        Server(name="LitServe 0.2.19", command=(str(lit), "litserve_app.py", "8302"), port=8302, path="/predict", body=text,
               ready="/health", folder=HERE / "peers", variables=shared),
        Server(name="BentoML 1.4.40", command=(str(bento.with_name("bentoml")), "serve", "bentoml_app:Peer", "--port", "8303"), port=8303,
               path="/answer", body=json.dumps({"items": [asked.item]}).encode(), ready="/readyz", folder=HERE / "peers", variables=shared),
        Server(name="MLServer 1.7.1", command=(str(ml.with_name("mlserver")), "start", "."), port=8304, path="/v2/models/peer/infer",
               body=json.dumps({"inputs": [tensor]}).encode(), ready="/v2/models/peer/ready", folder=HERE / "peers" / "mlserver_app", variables=shared),
    ]  # fmt: skip


class Running:
    """A server's process group, started and ended; its log in CACHE."""

    def __init__(self, server: Server, within_s: float = 90.0) -> None:
        self.server = server
        CACHE.mkdir(parents=True, exist_ok=True)
        self.log = CACHE / f"{server.name.split()[0].lower()}.log"
        path = os.pathsep.join((str(Path(server.command[0]).parent), os.environ.get("PATH", "")))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                server.command, cwd=server.folder, env={**os.environ, "PATH": path, **server.variables},
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + within_s
        while not self._ready():
            if self.process.poll() is not None or time.monotonic() > end:
                tail = self.log.read_text(errors="replace")[-1500:]
                self.stop()
                raise SystemExit(f"{server.name} does not get ready:\n{tail}")
            time.sleep(0.2)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}{self.server.ready}", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """The whole group: some peers leave workers behind after SIGTERM."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(8)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass

    def workers(self) -> list[int]:
        """Processes that the server started."""
        return children(self.process.pid)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def children(pid: int) -> list[int]:
    try:
        return [int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def resident(pids: list[int]) -> int:
    """Bytes."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        total += next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))
    return total


def interpreter(bundle: Path) -> Path:
    """That of the bundle's own requirements."""
    from dspec.compiler.environment import clean_environment

    return clean_environment(bundle / "requirements.txt", 2, lambda text: print(text, file=sys.stderr)).python
