"""What a server answers when it can't answer: a status, a code that machines read, a message for people."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..errors import BundleError, EngineError, RequestError, StepError

RETRY_S = 1


class Refusal(Exception):  # noqa: N818 (reads as what it is)
    """`status` is HTTP's; `field` names what of the request is at fault."""

    def __init__(self, status: int, code: str, message: str, field: str = "") -> None:
        self.status, self.code, self.message, self.field = status, code, message, field
        super().__init__(message)


class Failure(NamedTuple):
    """A refusal, and what of it is for the log alone."""

    refusal: Refusal
    detail: str


def refused(error: Exception, item: int | None = None, *, tell: bool = False) -> Failure:
    """The refusal that an error of the bundle becomes. What went wrong inside is told to the log, and to callers only with `tell`."""
    if isinstance(error, Refusal):
        return Failure(error, "")
    if isinstance(error, RequestError):
        field = error.field if item is None else f"[{item}].{error.field}"
        step = f" (step {error.step})" if error.step else ""
        message = f"{field or 'request'}: {error.found}; expected {error.expected}{step}"
        return Failure(Refusal(422, "invalid_request", message, field), "")
    code, words = "internal", "the server failed on this request"
    if isinstance(error, StepError):
        code, words = "step_failed", f"step {error.step} failed on this request"
    elif isinstance(error, EngineError):
        code, words = "model_failed", "the model failed on this request"
    detail = str(error) if isinstance(error, BundleError) else f"{type(error).__name__}: {error}"
    return Failure(Refusal(500, code, detail if tell else words), detail)


def body_of(error: Refusal, *, v2: bool) -> dict[str, Any]:
    """Under /v2 the Open Inference Protocol's own form, a text under `error`; elsewhere an object."""
    found = {"code": error.code, "message": error.message} | ({"field": error.field} if error.field else {})
    if not v2:
        return {"error": found}
    message = found.pop("message")
    return {"error": message, **found}
