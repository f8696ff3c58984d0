"""How a server is run: what bundle.json says, and what the command line says otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..cores import usable_cores
from ..errors import BundleError

OPTIONS = "serve"  # the key of bundle.json's `options` that holds the server's

LEAST_BODY, SPARE = 16 << 20, 1 << 16
DEFAULT_FIELD = 10_000_000  # as request.py has it
EXPANDS = {"image": 4 / 3, "audio": 4 / 3, "text": 2, "tensor": 6}


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The server's options, all of them in bundle.json.

    Attributes:
        workers: processes that hold the model; together with their threads no more than the cores granted.
        max_batch: requests that run through the model at once, at most.
        max_delay_ms: how long a prepared request waits for others that have already arrived; never for those that have not.
        max_queue: requests accepted and not yet answered; one more is answered 429.
        deadline_ms: from the head of a request to its answer; later it is answered 504.
        hang_s: a worker that gives no answer for so long while it has requests is killed and replaced.
        max_body_bytes: of a request; a larger one is answered 413 before it is read. 0: as large as the fields allow.
        max_items: of a list sent to /predict, or along the first axis of an inference request.
    """

    workers: int = 1
    max_batch: int = 16
    max_delay_ms: float = 2.0
    max_queue: int = 256
    deadline_ms: float = 30_000.0
    hang_s: float = 60.0
    max_body_bytes: int = 0
    max_items: int = 64

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            least = 0 if field.name in ("max_delay_ms", "max_body_bytes") else 1
            found = getattr(self, field.name)
            if found < least and not (field.type == "float" and found > 0):
                raise ValueError(f"{field.name} is {found:g}; at least {least}")

    @classmethod
    def of(cls, manifest: Mapping[str, Any], fields: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
        """Those of bundle.json, `changes` (None: none) over them; BundleError where they don't fit.

        `fields`: the request of pipeline.json, which says how large a body may have to be.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        given = dict(manifest.get("options", {}).get(OPTIONS) or {})
        unknown = sorted(set(given) - known)
        if unknown:
            raise BundleError(f"unknown option {unknown[0]!r} of the server; there are {', '.join(sorted(known))}")
        given |= {name: value for name, value in changes.items() if value is not None}
        given["max_body_bytes"] = given.get("max_body_bytes") or body_bytes(fields)
        try:
            return cls(**given)
        except (ValueError, TypeError) as error:
            raise BundleError(f"bundle.json: options of the server: {error}") from error


def body_bytes(fields: Mapping[str, Any]) -> int:
    """What a request with every field at its limit takes as JSON (base64, escapes, digits), and LEAST_BODY at least."""
    sizes = (EXPANDS.get(field["type"], 1) * int(field.get("max_bytes") or DEFAULT_FIELD) for field in fields.values())
    return max(LEAST_BODY, int(sum(sizes)) + SPARE)


def threads_per_worker(manifest: Mapping[str, Any], workers: int) -> int:
    """The cores of one worker. BundleError where workers, or the threads asked for, are more than this machine grants."""
    cores = usable_cores(int(manifest["cores"]))
    threads = int(manifest.get("options", {}).get("intra_op_threads") or 0)
    if workers * max(threads, 1) > cores:
        asked = f"{workers} workers of {max(threads, 1)} threads"
        raise BundleError(f"{asked} on {cores} cores (affinity and cgroup quota counted); give fewer, or more cores")
    return threads or cores // workers
