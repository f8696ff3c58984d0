"""Asking a Triton server, over HTTP and gRPC: tritonclient's own encoding, in and out."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dspec.targets.connection import Connection, Response

HOST = "127.0.0.1"
Tensors = Mapping[str, Any]  # name → array; dtype object: strings


class Announced(NamedTuple):
    """One tensor as the server announces it; -1: any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]


class Refused(Exception):  # noqa: N818 (reads as what it is)
    """The server is there and would not answer; `own_fault`: the request's, not the bundle's."""

    def __init__(self, message: str, own_fault: bool) -> None:
        self.own_fault = own_fault
        super().__init__(message)


class Client(Protocol):
    """Safe from several threads. OSError where the server is gone, TimeoutError where it does not answer in time."""

    def infer(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> dict[str, Any]: ...

    def metadata(self, model: str) -> tuple[tuple[Announced, ...], tuple[Announced, ...]]: ...

    def parameters(self, model: str) -> Mapping[str, str]: ...

    def close(self) -> None: ...


def encoded(kind: Any, tensors: Tensors) -> list[Any]:
    """The tensors as `InferInput` of tritonclient.http or tritonclient.grpc."""
    from tritonclient.utils import np_to_triton_dtype

    found = [kind(name, list(array.shape), np_to_triton_dtype(array.dtype)) for name, array in tensors.items()]
    for one, array in zip(found, tensors.values(), strict=True):
        one.set_data_from_numpy(array)
    return found


class Http:
    """A connection per thread, kept alive; the bodies are tritonclient's, the transport is ours: measuring must not measure it."""

    def __init__(self, port: int, answer_s: float) -> None:
        self._port, self._answer_s = port, answer_s
        self._local = threading.local()
        self._connections: list[Connection] = []

    def infer(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> dict[str, Any]:
        """The outputs asked for; arrays, strings as dtype object. Raises Refused."""
        from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput

        given = encoded(InferInput, inputs)
        wanted = [InferRequestedOutput(name, binary_data=True) for name in outputs]
        body, size = InferenceServerClient.generate_request_body(given, outputs=wanted)
        headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(size)}
        found = self.ask("POST", f"/v2/models/{model}/infer", body, headers)
        _check(found)
        result = InferenceServerClient.parse_response_body(
            found.body, header_length=int(found.headers["inference-header-content-length"])
        )
        return {name: result.as_numpy(name) for name in outputs}

    def metadata(self, model: str) -> tuple[tuple[Announced, ...], tuple[Announced, ...]]:
        found = self.json(f"/v2/models/{model}")
        return announced(found["inputs"]), announced(found["outputs"])

    def parameters(self, model: str) -> Mapping[str, str]:
        return parameters(self.json(f"/v2/models/{model}/config"))

    def json(self, path: str) -> Any:
        """What a GET answers. Raises Refused."""
        found = self.ask("GET", path)
        _check(found)
        return json.loads(found.body)

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Response:
        """As `Connection.ask`."""
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = Connection(self._port, self._answer_s)
            self._connections.append(connection)
        try:
            return connection.ask(method, path, body, headers)
        except OSError:
            connection.close()
            self._local.connection = None
            raise

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def announced(found: list[dict[str, Any]]) -> tuple[Announced, ...]:
    return tuple(Announced(one["name"], one["datatype"], tuple(map(int, one["shape"]))) for one in found)


def parameters(config: Mapping[str, Any]) -> dict[str, str]:
    """Those of a model's configuration in its JSON form."""
    return {name: str(value.get("string_value", "")) for name, value in config.get("parameters", {}).items()}


def _check(found: Response) -> None:
    if found.status == 200:
        return
    try:
        message = str(json.loads(found.body)["error"])
    except (ValueError, KeyError, TypeError):
        message = found.body[:200].decode(errors="replace")
    raise Refused(message, found.status < 500)


class Grpc:
    """tritonclient's channel, shared by all threads. `place`: host:port."""

    def __init__(self, place: str, answer_s: float) -> None:
        from tritonclient.grpc import InferenceServerClient

        self._client = InferenceServerClient(place)
        self._answer_s = answer_s

    def infer(self, model: str, inputs: Tensors, outputs: Sequence[str]) -> dict[str, Any]:
        """The outputs asked for; arrays, strings as dtype object. Raises Refused."""
        from tritonclient.grpc import InferInput, InferRequestedOutput

        given = encoded(InferInput, inputs)
        wanted = [InferRequestedOutput(name) for name in outputs]
        found = self._call(self._client.infer, model, given, outputs=wanted, client_timeout=self._answer_s)
        return {name: found.as_numpy(name) for name in outputs}

    def metadata(self, model: str) -> tuple[tuple[Announced, ...], tuple[Announced, ...]]:
        found = self._call(self._client.get_model_metadata, model, client_timeout=self._answer_s)
        return tuple(  # type: ignore[return-value]
            tuple(Announced(one.name, one.datatype, tuple(one.shape)) for one in side)
            for side in (found.inputs, found.outputs)
        )

    def parameters(self, model: str) -> Mapping[str, str]:
        found = self._call(self._client.get_model_config, model, client_timeout=self._answer_s)
        return {name: value.string_value for name, value in found.config.parameters.items()}

    def close(self) -> None:
        self._client.close()

    def _call(self, ask: Any, *given: Any, **named: Any) -> Any:
        from tritonclient.utils import InferenceServerException

        try:
            return ask(*given, **named)
        except InferenceServerException as error:
            match str(error.status()):
                case "StatusCode.UNAVAILABLE":
                    raise ConnectionResetError(error.message()) from error
                case "StatusCode.DEADLINE_EXCEEDED":
                    raise TimeoutError(error.message()) from error
                case status:
                    raise Refused(error.message(), status == "StatusCode.INVALID_ARGUMENT") from error


def strings(values: Sequence[bytes], shape: tuple[int, ...]) -> Any:
    """An array of dtype object: so that no byte of a text is lost."""
    found = np.empty(shape, object)
    found.reshape(-1)[:] = list(values)
    return found
