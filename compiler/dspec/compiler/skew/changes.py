"""What may be changed in a pipeline, one thing at a time: this is general, no step is known here by name.

Each group is tried whole before the next; the likelier explanations come first.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from dspec.compiler.skew.replay import Change, Link, Replay
from dspec.targets.shipped import steps
from dspec.targets.shipped.arrays import Array

CHANNELS = (3, 4)
SPELT = 4  # numbers of a parameter that a cause spells out
LENGTHS = 8  # whole numbers tried for a parameter that is one


def groups(replay: Replay, numbers: Sequence[int]) -> Iterator[list[Change]]:
    """`numbers`: sizes and ids seen in the training-time tensors, which a parameter may have been."""
    yield [*_choices(replay), *_numbers(replay, numbers)]
    yield [*_twice(replay), *_left_out(replay), *_swapped(replay)]
    yield [*_neutral(replay)]
    yield [*_channels(replay)]


def _change(replay: Replay, at: int, links: Any, what: str, step: str) -> Change:
    """`links` stand where the one at `at` stood; those behind it follow."""
    return Change(at=at, make=lambda: [*links(), *replay.links[at + 1 :]], what=what, step=step)


def _choices(replay: Replay) -> Iterator[Change]:
    """Every other value of a parameter with a closed set of them."""
    for at, link in enumerate(replay.links):
        for name, current, hint in _parameters(link):
            for value in _closed(hint):
                if value != current or type(value) is not type(current):
                    yield _with(replay, at, link, name, value, current)


def _numbers(replay: Replay, numbers: Sequence[int]) -> Iterator[Change]:
    for at, link in enumerate(replay.links):
        for name, current, hint in _parameters(link):
            if int in _members(hint) and isinstance(current, int) and not isinstance(current, bool):
                for value in [number for number in numbers if number != current][:LENGTHS]:
                    yield _with(replay, at, link, name, value, current)


def _neutral(replay: Replay) -> Iterator[Change]:
    """A mean never subtracted, a deviation or a factor never applied: real numbers as 0 or 1."""
    for at, link in enumerate(replay.links):
        for name, current, hint in _parameters(link):
            if float in _members(hint) and current is not None:
                for value in (0.0, 1.0):
                    if value != current:
                        yield _with(replay, at, link, name, value, current)


def _with(replay: Replay, at: int, link: Link, name: str, value: Any, current: Any) -> Change:
    def links() -> list[Link]:
        return [replay.with_params(link, **{name: value})]

    what = f"step `{link.id}` with {name} {_word(value)} instead of {_word(current)}"
    return _change(replay, at, links, what, link.id)


def _word(value: Any) -> str:
    if isinstance(value, float) or (isinstance(value, list | tuple) and len(value) > SPELT):
        return f"{value:g}" if isinstance(value, float) else f"{len(value)} numbers"
    return "unset" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _twice(replay: Replay) -> Iterator[Change]:
    for at, link in enumerate(replay.links):
        if _through(link):
            again = dataclasses.replace(link, reads=link.writes)
            yield _change(replay, at, partial(list, (link, again)), f"step `{link.id}` applied twice", link.id)


def _left_out(replay: Replay) -> Iterator[Change]:
    for at, link in enumerate(replay.links):
        if _through(link):
            nothing = dataclasses.replace(link, run=lambda value: value)
            yield _change(replay, at, partial(list, (nothing,)), f"step `{link.id}` left out", link.id)


def _swapped(replay: Replay) -> Iterator[Change]:
    """Two neighbours, of which the second reads what the first writes, the other way round."""
    for at, (link, following) in enumerate(zip(replay.links, replay.links[1:], strict=False)):
        if _through(link) and _through(following) and following.reads == link.writes:
            turned = (
                dataclasses.replace(following, reads=link.reads, writes=link.writes),
                dataclasses.replace(link, reads=following.reads, writes=following.writes),
            )
            links = [*turned, *replay.links[at + 2 :]]
            what = f"step `{following.id}` before `{link.id}`"
            yield Change(at=at, make=partial(list, links), what=what, step=link.id)


def _channels(replay: Replay) -> Iterator[Change]:
    for at, link in enumerate(replay.links):
        if len(link.writes) == 1:
            turned = dataclasses.replace(link, reads=link.writes, run=reversed_channels)
            what = f"channels in reverse order (RGB ↔ BGR) after step `{link.id}`"
            yield _change(replay, at, partial(list, (link, turned)), what, link.id)


def reversed_channels(value: Any) -> Array:
    """The channel axis turned round; ValueError where there is none."""
    axis = channel_axis(np.shape(value))
    if axis is None:
        raise ValueError("no channel axis")
    turned: Array = np.flip(value, axis).copy()
    return turned


def channel_axis(shape: Sequence[int]) -> int | None:
    """The axis of 3 or 4 among the three of a picture: the last where it could be either."""
    if len(shape) < 3:
        return None
    return next((axis for axis in (-1, -3) if shape[axis] in CHANNELS), None)


def _through(link: Link) -> bool:
    """One value in, one out: what can be repeated or left out."""
    return len(link.reads) == len(link.writes) == 1


def _parameters(link: Link) -> Iterator[tuple[str, Any, Any]]:
    """Name, value in force and type of every parameter."""
    step = steps.load(link.use)
    try:
        hints = get_type_hints(step)
    except (NameError, TypeError):
        return
    for field in dataclasses.fields(step):
        default = None if field.default is dataclasses.MISSING else field.default
        if not field.metadata.get("asset"):
            yield field.name, link.params.get(field.name, default), hints.get(field.name)


def _members(hint: Any) -> tuple[Any, ...]:
    united = get_origin(hint) in (Union, types.UnionType)
    return get_args(hint) if united else (hint,)


def _closed(hint: Any) -> Iterable[Any]:
    for member in _members(hint):
        if member is bool:
            yield from (True, False)
        elif get_origin(member) is Literal:
            yield from get_args(member)
