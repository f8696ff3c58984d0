"""What can go wrong while a bundle answers.

RequestError          the caller's fault: which field, what was found, what was expected
BundleError           not the caller's fault
├── StepError         a step of the pipeline failed, or gave what it did not promise
├── EngineError       the model did not load or run
├── GoldenError       the golden folder can't be read
└── MissingLibrary    a library of requirements.txt is not installed
"""

from __future__ import annotations

from typing import Any


class RequestError(ValueError):
    """The request is at fault: which field, what was found, what was expected.

    A step raises it with an empty `field`: it does not know what feeds it. The pipeline fills in
    field and step.
    """

    def __init__(self, field: str, found: str, expected: str, step: str = "") -> None:
        self.field, self.found, self.expected, self.step = field, found, expected, step
        place = f" (step {step})" if step else ""
        super().__init__(f"{field or 'request'}: {found}; expected {expected}{place}")


class BundleError(Exception):
    """The bundle, not the request, is at fault."""


class StepError(BundleError):
    """A step failed on a request that was in order so far."""

    def __init__(self, step: str, message: str) -> None:
        self.step = step
        super().__init__(f"step {step}: {message}")


class EngineError(BundleError):
    """The model did not load, or did not run."""


class GoldenError(BundleError):
    """The golden folder is incomplete or malformed."""


class MissingLibrary(BundleError):  # noqa: N818 (reads as what it is)
    """A library that requirements.txt names is not installed."""


def kind(value: Any) -> str:
    """The kind of a JSON or Python value, in words: what an error says was found."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    names: dict[Any, str] = {str: "a text", list: "a list", tuple: "a list", dict: "an object"}
    return names.get(type(value), f"a value of type {type(value).__name__}")


def first_bytes(data: bytes) -> str:
    """What bytes are that no decoder knows: for `found` of an error."""
    if not data:
        return "no bytes"
    if data.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer instead of the file"
    return f"{len(data)} bytes that begin with {data[:8]!r}"
