"""What web process and workers send each other over a socket pair: fixed heads, raw bodies, many at a time.

To a worker:    HEAD (kind, id, deadline, size of meta, size of body), meta, body
From a worker:  REPLY (kind, id, status, batch, size of the inference header, size of body, seconds per stage), body

Deadlines are seconds of the monotonic clock, which processes of one machine share.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

HEAD = struct.Struct("<BQdII")
REPLY = struct.Struct("<BQHHII4f")

PREDICT, FORM, RAW, INFER, INFER_MODEL, COUNTS = range(1, 7)  # kinds of requests
ANSWER, STATE = 1, 2  # kinds of replies; the answer to COUNTS is an ANSWER
CHUNK = 1 << 18


class Asked(NamedTuple):
    """`meta`: content type of a FORM, size of the JSON part of an INFER."""

    kind: int
    id: int
    deadline: float
    meta: bytes
    body: bytes


class Reply(NamedTuple):
    """`header`: bytes of the body that are JSON where tensors follow, else 0. `seconds`: wait, preprocess, model, postprocess."""

    kind: int
    id: int
    status: int
    batch: int
    header: int
    seconds: tuple[float, float, float, float]
    body: bytes


def asked(kind: int, id: int, deadline: float, meta: bytes, body: bytes) -> bytes:
    return b"".join((HEAD.pack(kind, id, deadline, len(meta), len(body)), meta, body))


def reply(found: Reply) -> bytes:
    head = REPLY.pack(found.kind, found.id, found.status, found.batch, found.header, len(found.body), *found.seconds)
    return head + found.body


class Requests:
    """Cuts what arrives into requests."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes | memoryview) -> Iterator[Asked]:
        self._held += data
        at, held = 0, self._held
        while len(held) - at >= HEAD.size:
            kind, id, deadline, meta, body = HEAD.unpack_from(held, at)
            end = at + HEAD.size + meta + body
            if len(held) < end:
                break
            start = at + HEAD.size
            yield Asked(kind, id, deadline, bytes(held[start : start + meta]), bytes(held[start + meta : end]))
            at = end
        del held[:at]


class Replies:
    """Cuts what arrives into replies."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[Reply]:
        self._held += data
        at, held = 0, self._held
        while len(held) - at >= REPLY.size:
            kind, id, status, batch, header, size, *seconds = REPLY.unpack_from(held, at)
            end = at + REPLY.size + size
            if len(held) < end:
                break
            yield Reply(kind, id, status, batch, header, tuple(seconds), bytes(held[at + REPLY.size : end]))
            at = end
        del held[:at]
