"""What a bundle's README says to the team that asks it: the steps they do themselves, and how to know they did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from dspec.targets import catalogue

OWED = """
## What the caller does

This bundle leaves some steps of the pipeline to whoever asks it. `pipeline/pipeline.json` holds them under `contract`, as does
`bundle.json`; files that they need lie in `pipeline/`. What each step does exactly is defined by the golden vectors.

{steps}

The whole response is {response}.

`golden/<number>/` defines it by example:

- `caller/request.json`: the raw request ({raw}), its files beside it;
- `trace.npz`: the value after every step, `NN.<step>.<value>`; what is no array stands there as JSON, `NN.<step>.<value> (json)`,
  and in `caller/values.json`;
- `request.json`: what the bundle is asked then ({asked}); `answer.json`: its tensors and its response;
- `caller/answer.json`: the whole response.

Replay them in your own code: whole numbers and texts are equal, floats agree to within 1e-5.
"""
SIDES = (("before", "Before the bundle is asked:"), ("after", "With the bundle's response:"))


def owed(contract: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """A section of README.md. `contract` and `request` as in pipeline.json."""
    return OWED.format(
        steps="\n\n".join(_side(contract[side], words) for side, words in SIDES if contract[side]),
        response=", ".join(_answered(field, source) for field, source in contract["response"].items()),
        raw=_fields(contract["request"]),
        asked=_fields(request),
    )


def _side(steps: list[Mapping[str, Any]], words: str) -> str:
    return "\n".join([words, "", *(line for number, step in enumerate(steps, 1) for line in _step(number, step))])


def _step(number: int, step: Mapping[str, Any]) -> Iterator[str]:
    reads, writes = (", ".join(f"`{name}`" for name in step[key]) for key in ("in", "out"))
    yield f"{number}. `{step['id']}`: `{step['use']}` of {reads} gives {writes}{_summary(step['use'])}"
    for name, value in step["params"].items():
        if value is None:  # absent: the step's own default
            continue
        yield f"   - {name}: {json.dumps(value, ensure_ascii=False)}"


def _summary(use: str) -> str:
    """What a shipped step does, in the sentence of its documentation."""
    entry = catalogue().steps.get(use)
    return f". {entry.summary.rstrip('.')}." if entry and entry.summary else ""


def _fields(request: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}`: {in_words(field)}" for name, field in request.items())


def in_words(field: Mapping[str, Any]) -> str:
    """The type of a request field: `tensor uint8 [32, 32, 3]`."""
    if field["type"] != "tensor":
        return str(field["type"])
    sizes = "" if field["shape"] is None else f" [{', '.join(map(str, field['shape']))}]"
    return f"tensor {field['dtype'] or 'of any dtype'}{sizes}"


def _answered(field: str, source: str) -> str:
    return f"`{field}`" if field == source else f"`{field}` (the value `{source}`)"
