"""The shipped steps, run again with one thing changed. What stands before the change is not computed anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dspec.targets.shipped.pipeline import open_step

Values = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One opened step of the chain."""

    id: str
    use: str
    params: Mapping[str, Any]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    run: Callable[..., Any]

    def on(self, values: Values) -> Values:
        """The values with this step's own among them."""
        found = self.run(*(values[name] for name in self.reads))
        several = found if len(self.writes) > 1 else (found,)
        return {**values, **dict(zip(self.writes, several, strict=True))}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """The links from position `at` on, in place of the shipped ones there; `make` may open a step."""

    at: int
    make: Callable[[], Sequence[Link]]
    what: str
    step: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """`steps` as pipeline.json has them; assets lie in `folder`."""

    links: tuple[Link, ...]
    folder: Path
    opened: dict[str, Callable[..., Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Sequence[Mapping[str, Any]], folder: Path) -> Replay:
        opened: dict[str, Callable[..., Any]] = {}
        links = tuple(
            Link(
                id=step["id"],
                use=step["use"],
                params=step["params"],
                reads=tuple(step["in"]),
                writes=tuple(step["out"]),
                run=_opened(opened, step["use"], step["params"], folder),
            )
            for step in steps
        )
        return cls(links=links, folder=folder, opened=opened)

    def with_params(self, link: Link, **params: Any) -> Link:
        """The same step with other parameters."""
        both = {**link.params, **params}
        return replace(link, params=both, run=_opened(self.opened, link.use, both, self.folder))

    def snapshots(self, start: Values) -> list[Values]:
        """The values before each step, and at the end."""
        found = [dict(start)]
        for link in self.links:
            found.append(link.on(found[-1]))
        return found

    def changed(self, change: Change, snapshots: Sequence[Values]) -> Values:
        """The values at the end under a change; whatever a step raises comes through."""
        values = snapshots[change.at]
        for link in change.make():
            values = link.on(values)
        return values


def _opened(
    opened: dict[str, Callable[..., Any]], use: str, params: Mapping[str, Any], folder: Path
) -> Callable[..., Any]:
    key = json.dumps([use, params], sort_keys=True)
    if key not in opened:
        opened[key] = open_step(use, params, folder)
    return opened[key]
