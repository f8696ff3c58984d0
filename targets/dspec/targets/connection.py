"""One kept-alive HTTP connection, as little of HTTP as our own server needs: measuring must not measure its client."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import NamedTuple

CHUNK = 1 << 18


class Response(NamedTuple):
    """`headers` in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connection:
    """Used from one thread. OSError where the server is gone or does not answer within `timeout_s`."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Response:
        lines = [f"{method} {path} HTTP/1.1", f"host: {self._host}", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._socket.sendall("\r\n".join((*lines, "", "")).encode() + body)
        held = bytearray()
        while (end := held.find(b"\r\n\r\n")) < 0:
            held += self._more()
        first, *rest = bytes(held[:end]).decode("latin-1").split("\r\n")
        found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in rest)}
        size = int(found.get("content-length", 0))
        content = held[end + 4 :]
        while len(content) < size:
            content += self._more()
        return Response(int(first.split(" ", 2)[1]), found, bytes(content))

    def _more(self) -> bytes:
        data = self._socket.recv(CHUNK)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    def close(self) -> None:
        self._socket.close()
