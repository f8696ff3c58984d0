"""Serving a bundle over a pipe: frames on stdin, answers with the same `id` on stdout.

Requests, several of which may be in flight; one worker answers them in turn:

    {"id", "op": "ask", "request": {…}, "tensors": bool}   Python form of a request
    {"id", "op": "run", "tensors": {input: array}}         the model alone
    {"id", "op": "facts"} and {"id", "op": "close"}

Answers: {"id", "response", "seconds"} and, with `tensors`, {"inputs", "outputs"}: those at the model's door;
{"id", "outputs", "seconds"}; {"id", "facts"}; or
{"id", "error": {"kind": request|step|bundle|pipe, "field", "found", "expected", "step", "message"}}.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from . import frames
from .errors import BundleError, RequestError, StepError
from .runner import Bundle

END = None  # queued when the client has gone


def own_stdout() -> BinaryIO:
    """The real stdout, for frames alone: what a library prints goes to stderr from here on."""
    sys.stdout.flush()
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return stream


def serve(bundle: Bundle, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer until the client closes, or its end of the pipe does; an error never ends the loop."""
    requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(source, requests), daemon=True).start()
    while (asked := requests.get()) is not END:
        try:
            _send(sink, _answer(bundle, asked))
        except BrokenPipeError:
            return
        if isinstance(asked, Mapping) and asked.get("op") == "close":
            return


def _receive(source: BinaryIO, requests: queue.SimpleQueue[Any]) -> None:
    while True:
        try:
            requests.put(frames.read(source))
        except EOFError:
            break
        except (frames.FrameError, MemoryError, OSError) as error:
            requests.put(error)  # where the next frame begins is unknown now
            break
    requests.put(END)


def _send(sink: BinaryIO, answer: dict[str, Any]) -> None:
    try:
        parts = frames.encode(answer)
    except frames.FrameError as error:
        parts = frames.encode({"id": answer["id"], "error": _error("bundle", message=str(error))})
    for part in parts:
        sink.write(part)
    sink.flush()


def _answer(bundle: Bundle, asked: Any) -> dict[str, Any]:
    if not isinstance(asked, Mapping):
        return {"id": None, "error": _error("pipe", message=f"no request: {asked}")}
    head = {"id": asked.get("id")}
    try:
        return head | _ask(bundle, asked)
    except RequestError as error:
        return head | {"error": _refusal(error)}
    except StepError as error:
        return head | {"error": _error("step", step=error.step, message=str(error))}
    except BundleError as error:
        return head | {"error": _error("bundle", message=str(error))}
    except Exception as error:  # whatever it is, the next request must be answered
        return head | {"error": _error("bundle", message=f"{type(error).__name__}: {error}")}


def _ask(bundle: Bundle, asked: Mapping[str, Any]) -> dict[str, Any]:
    match asked.get("op"):
        case "ask":
            outcome = bundle.ask(asked["request"])
            answer: dict[str, Any] = {"response": outcome.response, "seconds": outcome.seconds}
            if asked.get("tensors"):
                answer |= {"inputs": outcome.door, "outputs": outcome.outputs}
            return answer
        case "run":
            start = time.perf_counter()
            outputs = bundle.run(asked["tensors"])
            return {"outputs": outputs, "seconds": {"model": time.perf_counter() - start}}
        case "facts":
            return {"facts": dict(bundle.facts)}
        case "close":
            return {}
        case unknown:
            return {"error": _error("pipe", message=f"unknown op {unknown!r}")}


def _refusal(error: RequestError) -> dict[str, str]:
    return _error(
        "request",
        field=error.field,
        found=error.found,
        expected=error.expected,
        step=error.step,
        message=str(error),
    )


def _error(kind: str, **known: str) -> dict[str, str]:
    return {
        "kind": kind,
        "field": "",
        "found": "",
        "expected": "",
        "step": "",
        "message": "",
    } | known
