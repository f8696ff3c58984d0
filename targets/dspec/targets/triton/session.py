"""The client of a Triton bundle: its repository in a real server, as callers meet it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.spec.errors import DspecError, GateError
from dspec.targets.protocol import Answer, Environment
from dspec.targets.session import ANSWER_S, START_S
from dspec.targets.triton.announced import Repository, check_metadata
from dspec.targets.triton.client import HOST, Client, Grpc, Http, Refused
from dspec.targets.triton.laid_out import laid_out
from dspec.targets.triton.server import Server

TRACED = {"DSPEC_TRACE": "1"}  # what stands at the model's door can be asked for
STAGES = ("preprocess", "model", "postprocess")
DOOR, MODEL, SECONDS = "door.", "model.", "stage.seconds"


class TritonSession:
    """A bundle in a server; implements `protocol.Session`.

    What is asked for its numbers (tensors at the model's door, or the model alone) goes over HTTP and gRPC in turn: two calls
    of one request are one of each, and both are held against the reference and against each other. What is timed goes over HTTP.
    """

    def __init__(
        self, bundle: Path, environment: Environment, *, start_s: float = START_S, answer_s: float = ANSWER_S
    ) -> None:
        """Start a server over the bundle's repository; it announces what the bundle does. Errors as `Server`, and E1014."""
        self._repository = Repository.of(bundle)
        self._answer_s = answer_s
        self._grpc: Grpc | None = None
        self._asked = {"http": 0, "grpc": 0}
        self._making = threading.Lock()
        with contextlib.ExitStack() as opened:
            repository = opened.enter_context(laid_out(bundle))
            self._server = Server(repository, environment, environ=TRACED, meanwhile=_import, start_s=start_s)
            self._opened = opened.pop_all()
        self._http = Http(self._server.http, answer_s)
        try:
            self.start_seconds = self._server.seconds["ready"]
            for client in (self._http, self.over_grpc):
                self._guarded(lambda client=client: check_metadata(client, self._repository))
        except BaseException:
            self.close()
            raise

    @property
    def over_grpc(self) -> Grpc:
        """The other way to ask."""
        with self._making:
            if self._grpc is None:
                self._grpc = Grpc(f"{HOST}:{self._server.grpc}", self._answer_s)
            return self._grpc

    @property
    def http_port(self) -> int:
        return self._server.http

    @property
    def grpc_port(self) -> int:
        return self._server.grpc

    @property
    def facts(self) -> Mapping[str, str]:
        """The server and its parts, how long they took to get ready, the greatest batch that really ran, and what went which way."""
        found = self._guarded(lambda: self._http.json("/v2"))
        model = self._repository.model
        config = self._guarded(lambda: self._http.json(f"/v2/models/{model}/config"))
        seconds = {f"start_s {name}": f"{taken:.2f}" for name, taken in sorted(self._server.seconds.items())}
        return {
            "engine": self._repository.engine,
            "provider": self._repository.provider,
            "server": f"{found['name']} {found['version']}",
            "backend": str(config["backend"]),
            "instances": str(sum(group["count"] for group in config["instance_group"])),
            "max_batch": str(self.together),
            "largest_batch": str(self.largest_batch()),
            "bundle": self._repository.stamp,
            **{f"asked over {way}": str(count) for way, count in self._asked.items()},
            **self._repository.session,
            **seconds,
        }

    @property
    def pids(self) -> tuple[int, ...]:
        return self._server.pids

    @property
    def together(self) -> int:
        return self._repository.together

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Answer:
        """One request in Python form; `company` comes from callers that ask at the same time, and is batched by the server.

        GateError: E0806 refused or failed, E0804 died, E0805 no answer in time.
        """
        return self.ask_by(self._in_turn() if tensors else self._http, request, tensors=tensors)

    def ask_by(self, client: Client, request: Mapping[str, Any], *, tensors: bool = False) -> Answer:
        """As `ask`, by another client."""
        known = self._repository
        inputs = known.inputs(request)
        traced = known.traced if tensors and known.traces else ()
        extra = (*traced, SECONDS) if known.traces else ()
        start = time.perf_counter()
        found = self._guarded(lambda: client.infer(known.name, inputs, (*known.answers, *extra)))
        whole = time.perf_counter() - start
        door, outputs = known.parted(found) if traced else self._parts(client, inputs) if tensors else ({}, {})
        parts = found[SECONDS].reshape(-1).tolist() if known.traces else (whole,)
        return Answer(
            response=known.response(found),
            inputs=door,
            outputs=outputs,
            seconds=dict(zip(STAGES if known.traces else ("ensemble",), parts, strict=False)),
        )

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model alone, batch axis included; errors as `ask`."""
        return self.run_by(self._in_turn(), tensors)

    def run_by(self, client: Client, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """As `run`, by another client."""
        known = self._repository
        return known.joined([self._run_by(client, part) for part in known.pieces(tensors)])

    def _run_by(self, client: Client, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        known = self._repository
        given = known.with_axis(tensors)
        return known.without_axis(self._guarded(lambda: client.infer(known.model, given, tuple(known.outputs))))

    def largest_batch(self) -> int:
        """Of those that really ran through the model; more than 1 where items were stacked."""
        found = self._guarded(lambda: self._http.json(f"/v2/models/{self._repository.model}/stats"))
        sizes = [int(batch["batch_size"]) for stats in found["model_stats"] for batch in stats.get("batch_stats", ())
                 if int(batch["compute_infer"]["count"])]  # fmt: skip
        return max(sizes, default=0)

    def _in_turn(self) -> Client:
        grpc = self.over_grpc
        with self._making:
            way = min(self._asked, key=self._asked.__getitem__)
            self._asked[way] += 1
        return self._http if way == "http" else grpc

    def close(self) -> None:
        """End the server and all it started."""
        self._http.close() if hasattr(self, "_http") else None
        if self._grpc is not None:
            self._grpc.close()
        self._server.close(gently=False)
        self._opened.close()

    def __enter__(self) -> TritonSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _parts(self, client: Client, inputs: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """An ensemble shows nothing of what stands between its parts: ask them one after the other."""
        known = self._repository
        door = self._guarded(lambda: client.infer(f"{known.name}.before", inputs, tuple(known.door)))
        outputs = self._guarded(lambda: client.infer(known.model, door, tuple(known.outputs)))
        return known.without_axis(door), known.without_axis(outputs)

    def _guarded(self, ask: Any) -> Any:
        try:
            return ask()
        except Refused as error:
            if self._server.ended_with(0) is not None:
                raise self._died() from error
            what = "refused the request" if error.own_fault else "failed"
            raise GateError.of("E0806", f"the bundle {what}: {error}", expected="an answer") from error
        except TimeoutError as error:
            raise GateError.of("E0805", f"no answer within {self._answer_s:g} s", expected="an answer",
                               notes=self._server.lines) from error  # fmt: skip
        except OSError as error:
            raise self._died() from error

    def _died(self) -> DspecError:
        return self._server.died()


def _import() -> None:
    """What takes long to import and is needed once the server is ready."""
    import tritonclient.grpc
    import tritonclient.http  # noqa: F401
