"""Frames: what goes in comes out, and what is no frame is an error."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dspec.targets.shipped import frames

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("$abarry", max_size=6), inner, max_size=3),
    max_leaves=10,
)


def through(value: Any) -> Any:
    stream = io.BytesIO()
    frames.write(stream, value)
    frames.write(stream, "next")
    stream.seek(0)
    found = frames.read(stream)
    assert frames.read(stream) == "next"
    with pytest.raises(EOFError):
        frames.read(stream)
    return found


@given(PLAIN)
def test_plain_values(value: Any) -> None:
    assert through(value) == value


ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(6).reshape(2, 3)),
    np.array(3.5),
    np.zeros((0, 4), np.int8),
    np.array([True, False]),
    np.array([np.nan, np.inf], np.float16),
]


@pytest.mark.parametrize("array", ARRAYS)
def test_arrays(array: Any) -> None:
    found = through({"a": [array]})["a"][0]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable


def test_the_users_own_dollar_keys_are_no_references() -> None:
    for value in ({"$array": [0, "f4", [1]]}, {"$bytes": 0}, {"$object": {"$array": 1}}):
        assert through({"x": value, "y": b"123"}) == {"x": value, "y": b"123"}


def test_what_can_not_travel() -> None:
    for value, message in (({1}, "a set can't travel"), (np.array([{}], object), "dtype object can't travel")):
        with pytest.raises(frames.FrameError, match=message):
            frames.encode(value)


def frame(header: Any, buffers: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return frames.LENGTH.pack(len(text)) + text + buffers


NO_FRAMES = [
    (b"\0\0", "the stream ended after 2 of 4 bytes"),
    (b"\xff\xff\xff\xff", "a frame of 4294967295 . 0 bytes; at most"),
    (frames.LENGTH.pack(9) + b"{}", "the stream ended after 2 of 9 bytes"),
    (frame(b"no JSON"), "the header is no frame's"),
    (frame([]), "the header is no frame's"),
    (frame({"body": 1}), "the header is no frame's: 'sizes'"),
    (frame({"body": 1, "sizes": [1 << 40]}), "a frame of .* at most"),
    (frame({"body": 1, "sizes": [-1]}), "a frame of"),
    (frame({"body": 1, "sizes": [4]}, b"12"), "the stream ended after 2 of 4 bytes"),
    (frame({"body": {"$bytes": 3}, "sizes": []}), "the body does not fit its buffers"),
    (frame({"body": {"$array": [0, "<f4", [2]]}, "sizes": [4]}, b"1234"), "4 bytes for shape .2. of <f4"),
    (frame({"body": {"$array": [0, "|O", [1]]}, "sizes": [8]}, b"12345678"), "8 bytes for shape"),
]


@pytest.mark.parametrize(("data", "message"), NO_FRAMES)
def test_what_is_no_frame(data: bytes, message: str) -> None:
    with pytest.raises(frames.FrameError, match=message):
        frames.read(io.BytesIO(data))
