"""The ASGI application. What carries requests is raw ASGI and passes bodies on unread; everything else is FastAPI's."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import time
from collections.abc import Mapping
from typing import Any

import orjson

from .cold import cold_routes
from .log import Log
from .metrics import Metrics
from .pool import Pool
from .refusals import RETRY_S, Refusal, body_of
from .wire import FORM, INFER, INFER_MODEL, PREDICT, RAW, Reply

JSON = b"application/json"
LINGER_S = 1.0
_ID = re.compile(rb"^[\x21-\x7e]{1,128}$")
_PATH = re.compile(r"^/v2/models/([^/]+)(?:/versions/([^/]+))?/infer$")
BINARY = ("image", "audio")


class Web:
    """`fields`: of the request, as in pipeline.json."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        fields: Mapping[str, Any],
        pool: Pool,
        log: Log,
        metrics: Metrics,
        access: bool,
    ) -> None:
        self._manifest, self._pool, self._log, self._metrics, self._access = manifest, pool, log, metrics, access
        self._digest = short_digest(manifest)
        self._settings = pool.settings
        self._single = len(fields) == 1 and next(iter(fields.values()))["type"] in BINARY
        self._names = {manifest["name"]: INFER, f"{manifest['name']}.model": INFER_MODEL}
        self._admitted = 0
        self._ids = itertools.count(1)
        self._prefix = os.urandom(6).hex()
        self._always = [(b"x-dspec-bundle", self._digest.encode())]
        self._cold = cold_routes(manifest, fields, pool, metrics)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        path = scope["path"]
        if scope["method"] == "POST":
            if path == "/predict":
                await self._answer(scope, receive, send, "predict")
                return
            if path.endswith("/infer") and _PATH.match(path):
                await self._answer(scope, receive, send, "infer")
                return
        await self._other(scope, receive, send)

    async def _other(self, scope: Any, receive: Any, send: Any) -> None:
        extra = [*self._always, (b"x-request-id", self._request_id(dict(scope["headers"])))]

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._cold(scope, receive, sending)

    def _request_id(self, headers: Mapping[bytes, bytes]) -> bytes:
        given = headers.get(b"x-request-id", b"")
        return given if _ID.match(given) else f"{self._prefix}-{next(self._ids)}".encode()

    async def _answer(self, scope: Any, receive: Any, send: Any, door: str) -> None:
        """One request that a worker answers."""
        start = time.monotonic()
        headers = dict(scope["headers"])
        id = self._request_id(headers)
        reply: Reply | None = None
        error: Refusal | None = None
        self._admitted += 1
        try:
            kind, meta = self._kind(scope["path"], headers, door)
            if self._admitted > self._settings.max_queue:
                raise Refusal(429, "overloaded", f"{self._settings.max_queue} requests are waiting; ask again later")
            deadline = start + self._settings.deadline_ms / 1000
            body = await self._body(headers, receive, deadline)
            reply = await self._pool.submit(kind, meta, body, deadline)
            if reply.status == 504:
                raise Refusal(504, "deadline", f"no answer within {self._settings.deadline_ms:g} ms")
        except Refusal as found:
            error = found
        except _Gone:
            return
        finally:
            self._admitted -= 1
            self._metrics.in_flight.set(self._admitted)
        if error is not None:
            await self._refuse(receive, send, id, error, door, start)
        else:
            assert reply is not None
            await self._send(send, id, reply, door, start)

    def _kind(self, path: str, headers: Mapping[bytes, bytes], door: str) -> tuple[int, bytes]:
        """What is asked of a worker, by path and content type."""
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Refusal(415, "unsupported_media_type", "a Content-Encoding; expected the body as it is")
        if door == "infer":
            name, version = _PATH.match(path).groups()  # type: ignore[union-attr]
            if name not in self._names or version not in (None, self._manifest["version"]):
                raise Refusal(
                    404,
                    "unknown_model",
                    f"no model {name}{' version ' + version if version else ''}; there are {', '.join(self._names)}",
                )
            return self._names[name], headers.get(b"inference-header-content-length", b"")
        given = headers.get(b"content-type", b"")
        main = given.partition(b";")[0].strip().lower()
        if main == JSON:
            return PREDICT, b""
        if main == b"multipart/form-data":
            return FORM, given
        if self._single and (main.startswith((b"image/", b"audio/")) or main == b"application/octet-stream"):
            return RAW, b""
        also = ", image/*, audio/* or application/octet-stream" if self._single else ""
        raise Refusal(
            415,
            "unsupported_media_type",
            f"Content-Type {main.decode('latin-1') or 'absent'}; expected application/json or multipart/form-data{also}",
        )

    async def _body(self, headers: Mapping[bytes, bytes], receive: Any, deadline: float) -> bytes:
        """The body, never more of it than is allowed. Refusal 413 before it is read, 408 if it does not arrive."""
        most = self._settings.max_body_bytes
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > most:
            raise _too_large(most)
        message = await _in_time(receive, deadline)
        if not message.get("more_body"):
            body: bytes = message.get("body", b"")
            return body if len(body) <= most else _refuse_size(most)
        parts, size = [message["body"]], len(message["body"])
        while message.get("more_body"):
            message = await _in_time(receive, deadline)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
        return b"".join(parts)

    async def _send(self, send: Any, id: bytes, reply: Reply, door: str, start: float) -> None:
        _, preprocess, model, postprocess = reply.seconds
        total = time.monotonic() - start
        queue = max(0.0, total - preprocess - model - postprocess)
        body, code = reply.body, ""
        headers = [
            (b"content-type", b"application/octet-stream" if reply.header else JSON),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", id),
            *self._always,
        ]
        if reply.status == 200:
            times = (queue * 1000, preprocess * 1000, model * 1000, postprocess * 1000)
            headers.append(
                (b"server-timing", b"queue;dur=%.3f, preprocess;dur=%.3f, model;dur=%.3f, postprocess;dur=%.3f" % times)
            )
            self._metrics.took((queue, preprocess, model, postprocess, total), reply.batch)
        else:
            found = orjson.loads(body)
            code = found.get("code") or found["error"]["code"]
        if reply.header:
            headers.append((b"inference-header-content-length", str(reply.header).encode()))
        self._metrics.answered(door, reply.status, code)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        if self._access:
            self._log.write(
                "request", id=id.decode(), door=door, status=reply.status, code=code, batch=reply.batch, ms=round(total * 1000, 3),
                queue_ms=round(queue * 1000, 3), preprocess_ms=round(preprocess * 1000, 3),
                model_ms=round(model * 1000, 3), postprocess_ms=round(postprocess * 1000, 3),
            )  # fmt: skip

    async def _refuse(self, receive: Any, send: Any, id: bytes, error: Refusal, door: str, start: float) -> None:
        body = orjson.dumps(body_of(error, v2=door == "infer"))
        headers = [
            (b"content-type", JSON),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", id),
            *self._always,
        ]
        if error.status in (429, 503):
            headers.append((b"retry-after", str(RETRY_S).encode()))
        unread = error.status in (408, 413, 429)  # what is left of the body is nobody's
        if unread:
            headers.append((b"connection", b"close"))
        self._metrics.answered(door, error.status, error.code)
        await send({"type": "http.response.start", "status": error.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": unread})
        if unread:
            await _linger(receive)
            await send({"type": "http.response.body", "body": b""})
        if self._access:
            self._log.write(
                "request", id=id.decode(), door=door, status=error.status, code=error.code,
                ms=round((time.monotonic() - start) * 1000, 3),
            )  # fmt: skip


class _Gone(Exception):  # noqa: N818
    """The caller went away before the whole request was there."""


async def _in_time(receive: Any, deadline: float) -> Any:
    try:
        async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
            message = await receive()
    except TimeoutError as error:
        raise Refusal(408, "slow_request", "the body did not arrive in time") from error
    if message["type"] == "http.disconnect":
        raise _Gone
    return message


async def _linger(receive: Any) -> None:
    """Throw away what still arrives, for a while: who is cut off while sending sees a broken pipe, and not the answer."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while (await receive()).get("more_body"):
                pass


def _too_large(most: int) -> Refusal:
    return Refusal(413, "too_large", f"the body is larger than {most} bytes")


def _refuse_size(most: int) -> bytes:
    raise _too_large(most)


def short_digest(manifest: Mapping[str, Any]) -> str:
    """The first twelve digits of the bundle's digest: what every answer, log line and metric carries."""
    return str((manifest.get("digests") or {}).get("bundle", ""))[:12] or "unsealed"
