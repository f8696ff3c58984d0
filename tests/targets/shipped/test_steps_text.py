"""tokenize and python: the token ids that the tokenizer's own file would not give, and a user's function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.step import ANY, IMAGE, TENSOR, TEXT, Value

Tokenize, Python = steps.load("tokenize"), steps.load("python")
LONG = "red green blue dark"  # 6 tokens with [CLS] and [SEP]


def tokens(tokenizer: str, text: str, **params: Any) -> list[list[int]]:
    found = Tokenize(tokenizer=tokenizer, **{"max_length": 6} | params).open()(text)
    assert all(array.dtype == np.int64 for array in found)
    return [array.tolist() for array in found]


def test_one_request_is_neither_padded_nor_cut_by_the_files_own_settings(tokenizer: str) -> None:
    assert tokens(tokenizer, LONG) == [[2, 4, 5, 6, 7, 3], [1] * 6]
    assert tokens(tokenizer, "") == [[2, 3], [1, 1]]
    assert tokens(tokenizer, "red", padding="none") == [[2, 4, 3], [1, 1, 1]]


@pytest.mark.parametrize(
    ("params", "ids", "mask"),
    [
        ({}, [2, 4, 3, 0, 0, 0], [1, 1, 1, 0, 0, 0]),
        ({"pad_side": "left"}, [0, 0, 0, 2, 4, 3], [0, 0, 0, 1, 1, 1]),
        ({"pad_id": 1}, [2, 4, 3, 1, 1, 1], [1, 1, 1, 0, 0, 0]),
    ],
)
def test_padding_to_max_length(tokenizer: str, params: dict[str, Any], ids: list[int], mask: list[int]) -> None:
    assert tokens(tokenizer, "red", padding="max_length", **params) == [ids, mask]


def test_truncation(tokenizer: str) -> None:
    assert tokens(tokenizer, LONG, max_length=4)[0] == [2, 4, 5, 3]
    assert tokens(tokenizer, LONG, max_length=4, truncation="left")[0] == [2, 6, 7, 3]
    with pytest.raises(RequestError, match="a text of 6 tokens; expected at most 5"):
        tokens(tokenizer, LONG, max_length=5, truncation="error")


def test_outputs_and_pairs(tokenizer: str) -> None:
    step = Tokenize(tokenizer=tokenizer, max_length=6, outputs=("types", "ids"))
    types, ids = step.open()("red", "blue")
    assert (types.tolist(), ids.tolist()) == ([0, 0, 0, 1, 1], [2, 4, 3, 6, 3])
    assert len(step.flow(Value(TEXT), Value(TEXT))) == 2
    alone = Tokenize(tokenizer=tokenizer, max_length=6, outputs=("ids",), add_special_tokens=False)
    assert alone.open()("red blue").tolist() == [4, 6]


def test_flow_knows_the_length_where_it_is_fixed(tokenizer: str) -> None:
    free, fixed = (Tokenize(tokenizer=tokenizer, max_length=6, padding=p) for p in ("longest", "max_length"))
    assert free.flow(Value(TEXT)) == (Value(TENSOR, "int64", (None,)),) * 2
    assert fixed.flow(Value(TEXT)) == (Value(TENSOR, "int64", (6,)),) * 2


MISFITS = [
    ({}, (Value(IMAGE),), "takes text, not image"),
    ({}, (Value(TEXT),) * 3, "takes one text or a pair, not 3 values"),
    ({"max_length": 0}, (Value(TEXT),), "max_length is 0; at least 1"),
    ({"outputs": ("ids", "ids")}, (Value(TEXT),), "at most once"),
]


@pytest.mark.parametrize(("params", "given", "message"), MISFITS)
def test_misfits(tokenizer: str, params: dict[str, Any], given: tuple[Value, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Tokenize(tokenizer=tokenizer, **{"max_length": 6} | params).flow(*given)


def test_a_tokenizer_without_padding_token(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    path = tmp_path / "bare.json"
    Tokenizer(models.WordLevel({"red": 0}, unk_token="red")).save(str(path))
    with pytest.raises(ValueError, match="names no padding token: give pad_id"):
        Tokenize(tokenizer=str(path), max_length=4, padding="max_length").open()
    assert tokens(str(path), "red", padding="max_length", pad_id=0, max_length=2) == [[0, 0], [1, 0]]


def python(tmp_path: Path, source: str) -> Any:
    path = tmp_path / "own.py"
    path.write_text(source)
    return Python(file=str(path), callable="f")


def test_python_gives_the_function_copies(tmp_path: Path) -> None:
    step = python(tmp_path, "def f(a, b):\n    a *= 2\n    return a, b\n")
    given = np.ones(2)
    doubled, text = step.open()(given, "b")
    assert (doubled.tolist(), text, given.tolist()) == ([2, 2], "b", [1, 1])
    assert step.flow(Value(TEXT)) == (Value(ANY),)


def test_python_holds_dataclasses_and_leaves_no_bytecode(tmp_path: Path) -> None:
    source = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    source += "@dataclass\nclass P:\n    x: int\ndef f(x):\n    return P(x).x\n"
    assert python(tmp_path, source).open()(3) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["own.py"]


def test_python_refuses_through_value_error(tmp_path: Path) -> None:
    step = python(tmp_path, "def f(x):\n    raise ValueError('a sound of 8 kHz')\n").open()
    with pytest.raises(RequestError, match="a sound of 8 kHz; expected a request that this step accepts"):
        step(1)


def test_python_without_the_function(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"own\.py has no function 'f'"):
        python(tmp_path, "g = 1\n").open()
