"""The server's log in words: what kept it from starting, and how long each model took."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_LINE = re.compile(r"^(?P<level>[IWEF])\d{4} (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d\.\d+) \d+ \S+\] ?(?P<text>.*)$")
_LOADING = re.compile(r"loading: (\S+):(\d+)")
_LOADED = re.compile(r"successfully loaded '([^']+)'")
_FAILED = re.compile(r"failed to load '([^']+)' version (\d+): (.*)")
_POLL = re.compile(r"Poll failed for model directory '([^']+)': (.*)")
_WARMUP = re.compile(r"failed to run warmup sample '([^']+)' for '([^']+)'.*?: (.*)|failed to (?:execute|run) warmup.*")
_ENSEMBLE = re.compile(r"in ensemble ([^,]+), (.*)")
_SOCKET = re.compile(r"Socket '([^']+)' already in use")
_AT = re.compile(r"^\s+(\S+?)\((\d+)\): (\S+)$")
NOISE = (
    "NVML",
    "DCGM",
    "CudaDriverHelper",
    "pinned memory",
    "pinned_memory",
    "CUDA memory pool",
    "Collecting CPU metrics",
)
STATUS = ("Internal", "Invalid argument", "Not found", "Unavailable", "Unsupported", "Unknown")
DAY_S = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of the log: `seconds` of the day."""

    level: str
    seconds: float
    text: str


def read(raw: str) -> Line | None:
    """The line's parts; None for a table's row, or what a model printed."""
    found = _LINE.match(raw)
    if not found:
        return None
    text = found["text"]
    if text[:1] == text[-1:] == '"' and len(text) > 1:
        text = text[1:-1].replace('\\"', '"').replace("\\n", "\n")
    seconds = int(found["h"]) * 3600 + int(found["m"]) * 60 + float(found["s"])
    return Line(level=found["level"], seconds=seconds, text=text)


def causes(raw: Iterable[str]) -> tuple[str, ...]:
    """What kept models or the server from starting, in the order it was told, each once."""
    found: dict[str, None] = {}
    for line in filter(None, map(read, raw)):
        if words := _cause(line.text):
            found[words] = None
    return tuple(found)


def _cause(text: str) -> str:
    if failed := _FAILED.search(text.replace("\n", "\x00")):
        return f"{failed[1]} does not load: {reason(failed[3].replace(chr(0), chr(10)))}"
    if poll := _POLL.search(text):
        return f"{poll[1]}: {reason(poll[2])}"
    if ensemble := _ENSEMBLE.search(text):
        return f"ensemble {ensemble[1]}: {ensemble[2]}"
    if taken := _SOCKET.search(text):
        return f"the address {taken[1]} is taken"
    if warmup := _WARMUP.search(text):
        return f"{warmup[2] or 'a model'} fails on its warm-up: {reason(warmup[3] or text)}"
    return ""


def reason(message: str) -> str:
    """The cause alone: a Python exception's line with the place it was raised at; the status words of the server left out."""
    head, _, stack = message.partition("\n\nAt:")
    for status in STATUS:
        head = head.removeprefix(f"{status}: ").removeprefix(f"{status} - ")
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    said = lines[0] if lines else "it gave no reason"
    places = [found for line in stack.splitlines() if (found := _AT.match(line))]
    own = next((place for place in places if "<frozen" not in place[1]), None)
    return f"{said} ({own[1].rsplit('/', 1)[-1]}:{own[2]}, in {own[3]})" if own else said


def matters(raw: str) -> bool:
    """Whether a person wants to read it: warnings and errors that are not about a missing GPU."""
    line = read(raw)
    if line is None:
        return bool(raw.strip()) and not raw.startswith(("+-", "| ", "Error: Failed to initialize NVML"))
    return line.level != "I" and not any(word in line.text for word in NOISE)


def model_seconds(raw: Iterable[str]) -> dict[str, float]:
    """Model → seconds from being told to load to being loaded."""
    begun: dict[str, float] = {}
    found: dict[str, float] = {}
    for line in filter(None, map(read, raw)):
        if loading := _LOADING.search(line.text):
            begun[loading[1]] = line.seconds
        elif (loaded := _LOADED.search(line.text)) and loaded[1] in begun:
            found[loaded[1]] = (line.seconds - begun[loaded[1]]) % DAY_S
    return found
