"""What a pipeline step is.

A step is a frozen dataclass: its fields are the parameters that a spec may give, with their types
and defaults. Its file `steps/<name>.py` ends with `STEP = <class>`. The file imports only the
standard library at the top; `open` imports the one library it needs. The same code prepares the
fixtures at build time and the requests in the bundle.

    @dataclass(frozen=True, kw_only=True)
    class Scale:
        \"\"\"Multiply by `factor`, then add `offset`; gives float32.\"\"\"

        takes: ClassVar[int] = 1
        gives: ClassVar[int] = 1
        places: ClassVar[tuple[str, ...]] = ("host",)
        requires: ClassVar[tuple[str, ...]] = ()
        factor: float = 1.0

        def flow(self, value: Value) -> tuple[Value, ...]: ...  # types in, types out; ValueError in words
        def open(self) -> Callable[..., object]: ...  # loads what is slow to load, once per process
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

from .errors import RequestError as RequestError

TEXT = "text"  # str
IMAGE_BYTES = "image bytes"  # an encoded picture
AUDIO_BYTES = "audio bytes"  # an encoded sound
IMAGE = "image"  # uint8, height x width x 3 (RGB) or 1 (grey): an array, or what numpy.asarray makes one of
SOUND = "sound"  # a decoded sound: `Sound`
TENSOR = "tensor"  # array of one item (no batch axis)
NUMBER = "number"
JSON = "json"
ANY = "any"  # what a `python` step takes or gives

# `takes` or `gives` of a step whose count depends on its use: as many as `in` or `out` name.
MANY = 0


class Value(NamedTuple):
    """The type of a value: kind; dtype, shape (of one item) and range; None: known when running.

    `range` holds the least and the greatest number that may occur.
    """

    kind: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    range: tuple[float, float] | None = None


class Sound(NamedTuple):
    """Decoded sound: float32, frames x channels, full scale from -1 to 1; `rate` in hertz."""

    samples: Any
    rate: int


class Step(Protocol):
    """See the module's docstring."""

    takes: ClassVar[int]
    gives: ClassVar[int]
    places: ClassVar[tuple[str, ...]]
    requires: ClassVar[tuple[str, ...]]

    def flow(self, *inputs: Value) -> tuple[Value, ...]:
        """The types it gives for the types it takes; ValueError, in words, when they do not fit.

        Where `gives` is MANY, the length of the result is the count for these parameters; a single
        ANY stands for any count.
        """

    def open(self) -> Callable[..., Any]:
        """The function that runs it: values in; one value, or a tuple when `out` names several.

        The function may run in several threads at once and leaves its inputs unchanged. It raises
        RequestError with an empty field where the request is at fault.
        """


def accept(value: Value, *kinds: str) -> None:
    """Nothing if the value is of one of the kinds or ANY; ValueError in words otherwise."""
    if value.kind not in (*kinds, ANY):
        raise ValueError(f"takes {' or '.join(kinds)}, not {value.kind}")
