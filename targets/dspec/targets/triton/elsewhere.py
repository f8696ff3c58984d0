"""A Triton server that somebody else runs: whether it holds this bundle, and what it answers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dspec.spec.errors import GateError, MachineError, SpecError
from dspec.targets.session import ANSWER_S
from dspec.targets.triton.announced import Repository, check_metadata
from dspec.targets.triton.client import Announced, Client, Grpc, Refused, Tensors, announced, encoded, parameters
from dspec.targets.triton.config import STAMP_KEY

PORTS = {"http": 8000, "grpc": 8001}


class Elsewhere:
    """The bundle's models on a server at `url` (`http://host:8000` or `grpc://host:8001`)."""

    def __init__(self, bundle: Path, url: str) -> None:
        """Connect, and hold digest, names, datatypes and shapes against the bundle's.

        Raises:
            SpecError: E1017: no such URL. MachineError: E0605: no tritonclient here; E1015: nobody answers.
            GateError: E1014: it announces other tensors; E1016: it holds another bundle, or none.
        """
        self._repository = Repository.of(bundle)
        self._url = url
        self._client = _client(url)
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def run(self, tensors: Tensors) -> Mapping[str, Any]:
        """The model alone, batch axis included. GateError E0806: refused or failed."""
        known = self._repository
        found = self._guarded(lambda: self._client.infer(known.model, known.with_axis(tensors), known.outputs))
        return known.without_axis(found)

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """One request in Python form → the response. As `run`."""
        known = self._repository
        return known.response(
            self._guarded(lambda: self._client.infer(known.name, known.inputs(request), tuple(known.answers)))
        )

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self) -> None:
        known = self._repository
        try:
            held = {name: self._client.parameters(name).get(STAMP_KEY, "none") for name in (known.name, known.model)}
        except Refused as error:
            raise GateError.of("E1016", f"{self._url} does not serve {known.name}: {error}") from error
        except OSError as error:
            raise MachineError.of("E1015", f"nobody answers at {self._url}: {error}") from error
        if wrong := {name: stamp for name, stamp in held.items() if stamp != known.stamp}:
            said = ", ".join(f"{name} is of bundle {stamp}" for name, stamp in wrong.items())
            raise GateError.of("E1016", f"{self._url} holds another bundle: {said}", expected=known.stamp)
        self._guarded(lambda: check_metadata(self._client, known))

    def _guarded(self, ask: Any) -> Any:
        try:
            return ask()
        except Refused as error:
            raise GateError.of("E0806", f"the server refused or failed: {error}", expected="an answer") from error
        except OSError as error:
            raise MachineError.of("E1015", f"{self._url} does not answer any more: {error}") from error


def _client(url: str) -> Client:
    parts = urlsplit(url)
    try:
        place = f"{parts.hostname}:{parts.port or PORTS[parts.scheme]}"
    except (KeyError, ValueError):
        place = ""
    if not place or not parts.hostname or parts.path.strip("/"):
        raise SpecError.of("E1017", f"--server {url} is no address of a Triton server",
                           expected="http://host:8000 or grpc://host:8001")  # fmt: skip
    try:
        return Grpc(place, ANSWER_S) if parts.scheme == "grpc" else _Http(place)
    except ImportError as error:
        raise MachineError.of("E0605", f"asking a Triton server needs {error.name}",
                              hint="pip install 'dspec[triton]'") from error  # fmt: skip


class _Http:
    """tritonclient's own transport: it reaches other machines, and nothing is timed here."""

    def __init__(self, place: str) -> None:
        from tritonclient.http import InferenceServerClient

        self._client = InferenceServerClient(place, connection_timeout=ANSWER_S, network_timeout=ANSWER_S)

    def infer(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> dict[str, Any]:
        from tritonclient.http import InferInput, InferRequestedOutput

        given = encoded(InferInput, inputs)
        with _refusals():
            found = self._client.infer(model, given, outputs=[InferRequestedOutput(name) for name in outputs])
        return {name: found.as_numpy(name) for name in outputs}

    def metadata(self, model: str) -> tuple[tuple[Announced, ...], tuple[Announced, ...]]:
        with _refusals():
            found = self._client.get_model_metadata(model)
        return announced(found["inputs"]), announced(found["outputs"])

    def parameters(self, model: str) -> Mapping[str, str]:
        with _refusals():
            return parameters(self._client.get_model_config(model))

    def close(self) -> None:
        self._client.close()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    from tritonclient.utils import InferenceServerException

    try:
        yield
    except InferenceServerException as error:
        raise Refused(error.message(), own_fault=True) from error
