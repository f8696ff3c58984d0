"""Text steps and python: the token ids that the tokenizer's own file would not give, and a user's function."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.step import ANY, IMAGE, JSON, TENSOR, TEXT, Value

Tokenize, Python = steps.load("tokenize"), steps.load("python")
COLOURS = ["red", "green", "blue", "dark", "light", "red", "blue", "green", "red"]
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


def test_padding_up_to_a_multiple(tokenizer: str) -> None:
    assert tokens(tokenizer, "red", multiple_of=2) == [[2, 4, 3, 0], [1, 1, 1, 0]]
    assert tokens(tokenizer, LONG, multiple_of=2) == [[2, 4, 5, 6, 7, 3], [1] * 6]
    assert tokens(tokenizer, "red", multiple_of=3) == tokens(tokenizer, "red")


PAIRS = [  # longest_first takes from the longer text; the others keep one of them whole
    ("longest_first", "right", [2, 4, 5, 3, 6, 3]),
    ("only_first", "right", [2, 4, 3, 6, 6, 3]),
    ("only_first", "left", [2, 7, 3, 6, 6, 3]),
]


@pytest.mark.parametrize(("rule", "side", "ids"), PAIRS)
def test_a_pair_that_is_too_long(tokenizer: str, rule: str, side: str, ids: list[int]) -> None:
    step = Tokenize(tokenizer=tokenizer, max_length=6, outputs=("ids",), pair_truncation=rule, truncation=side)
    second = "blue" if rule == "longest_first" else "blue blue"
    assert step.open()(LONG, second).tolist() == ids


def test_a_pair_in_which_one_text_leaves_no_room(tokenizer: str) -> None:
    step = Tokenize(tokenizer=tokenizer, max_length=6, outputs=("ids",), pair_truncation="only_second")
    assert step.open()("red green", "blue dark").tolist() == [2, 4, 5, 3, 6, 3]
    with pytest.raises(RequestError, match="a pair whose first text leaves no room; expected at most 6 tokens"):
        step.open()(LONG, "red")


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("rule", ["longest_first", "only_first", "only_second"])
def test_truncation_is_the_librarys(tokenizer: str, rule: str, side: str) -> None:
    from tokenizers import Tokenizer

    library = Tokenizer.from_file(tokenizer)
    library.no_padding()
    for size in range(4, 13):
        library.enable_truncation(size, strategy=rule, direction=side)
        step = Tokenize(tokenizer=tokenizer, max_length=size, pair_truncation=rule, truncation=side,
                        outputs=("ids", "mask", "types")).open()  # fmt: skip
        for first, second in itertools.product(range(9), repeat=2):
            pair = " ".join(COLOURS[:first]), " ".join(COLOURS[second:])
            try:
                found = library.encode(*pair)
            except Exception:
                with pytest.raises(RequestError, match="leaves no room"):
                    step(*pair)
                continue
            assert [a.tolist() for a in step(*pair)] == [found.ids, found.attention_mask, found.type_ids], (size, pair)


def test_no_room_for_a_token(tokenizer: str) -> None:
    """The library then truncates nothing at all, and says nothing."""
    with pytest.raises(ValueError, match="max_length 2 leaves no room beside 2 special tokens"):
        Tokenize(tokenizer=tokenizer, max_length=2).open()
    assert tokens(tokenizer, "red blue", max_length=1, add_special_tokens=False) == [[4], [1]]


def test_half_a_surrogate_pair(tokenizer: str) -> None:
    with pytest.raises(RequestError, match="half of a surrogate pair; expected Unicode text"):
        tokens(tokenizer, "red \ud800")


def test_outputs_and_pairs(tokenizer: str) -> None:
    step = Tokenize(tokenizer=tokenizer, max_length=6, outputs=("types", "ids"))
    types, ids = step.open()("red", "blue")
    assert (types.tolist(), ids.tolist()) == ([0, 0, 0, 1, 1], [2, 4, 3, 6, 3])
    assert len(step.flow(Value(TEXT), Value(TEXT))) == 2
    alone = Tokenize(tokenizer=tokenizer, max_length=6, outputs=("ids",), add_special_tokens=False)
    assert alone.open()("red blue").tolist() == [4, 6]


def test_flow_knows_the_length_where_it_is_fixed(tokenizer: str) -> None:
    free, fixed = (Tokenize(tokenizer=tokenizer, max_length=6, padding=p) for p in ("longest", "max_length"))
    assert free.flow(Value(TEXT)) == (Value(TENSOR, "int64", (None,)), Value(TENSOR, "int64", (None,), (0, 1)))
    assert fixed.flow(Value(TEXT)) == (Value(TENSOR, "int64", (6,)), Value(TENSOR, "int64", (6,), (0, 1)))


MISFITS = [
    ({}, (Value(IMAGE),), "takes text, not image"),
    ({}, (Value(TEXT),) * 3, "takes one text or a pair, not 3 values"),
    ({"max_length": 0}, (Value(TEXT),), "max_length is 0; from 1 to 1000000: the positions that the model has"),
    ({"max_length": 10**30}, (Value(TEXT),), f"max_length is {10**30}; from 1 to 1000000"),
    ({"multiple_of": 4}, (Value(TEXT),), "max_length 6 is no multiple of multiple_of 4"),
    ({"multiple_of": 0}, (Value(TEXT),), "no multiple of multiple_of 0"),
    ({"multiple_of": 2, "padding": "none"}, (Value(TEXT),), "multiple_of is for padding: longest"),
    ({"pair_truncation": "only_second"}, (Value(TEXT),), "pair_truncation is only_second, and there is one text"),
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


NORMALIZED = [
    ({"form": "nfc"}, "e\u0301", "\xe9"),
    ({"form": "nfd"}, "\xe9", "e\u0301"),
    ({"form": "nfkc"}, "ﬁ ①\u00a0x", "fi 1 x"),
    ({"form": "none", "case": "lower"}, "Straße É", "straße é"),
    ({"case": "fold"}, "Straße", "strasse"),
    ({"case": "fold"}, "\u0390", "\u0390"),  # folding alone takes it apart; the form is applied again
    ({"form": "nfkc", "case": "lower"}, "\u210c", "h"),  # the form makes it a capital
    ({"whitespace": "strip"}, " a\n b\t", "a\n b"),
    ({"whitespace": "collapse"}, "\u2003a\r\n\n b\t", "a b"),
    ({"whitespace": "collapse"}, " \n", ""),
    ({}, "a\0b", "a\0b"),
    ({}, "e" + "\u0301" * 30, "é" + "\u0301" * 29),
]


@pytest.mark.parametrize(("params", "text", "found"), NORMALIZED)
def test_normalize_text(params: dict[str, str], text: str, found: str) -> None:
    step = steps.load("normalize_text")(**params)
    assert step.flow(Value(TEXT)) == (Value(TEXT),)
    assert step.open()(text) == found


def test_combining_marks_without_end_are_refused_at_once() -> None:
    """Sorting them takes their square: a text of 100 kB would take minutes."""
    step = steps.load("normalize_text")(form="nfc").open()
    with pytest.raises(RequestError, match="more than 30 combining marks in a row at character 1; expected at most 30"):
        step("a" + "\u0301\u0327" * 500_000)


def test_normalize_text_that_changes_nothing() -> None:
    step = steps.load("normalize_text")(form="none")
    with pytest.raises(ValueError, match="changes nothing: give form, case or whitespace"):
        step.flow(Value(TEXT))
    with pytest.raises(ValueError, match="takes text, not image"):
        steps.load("normalize_text")().flow(Value(IMAGE))


@pytest.fixture
def words(tmp_path: Path) -> str:
    path = tmp_path / "words.txt"
    path.write_bytes(b"[UNK]\r\nred\r\nblue\r\n \r\n")
    return str(path)


LOOKED_UP: list[tuple[dict[str, Any], Any, Any]] = [
    ({}, "blue  red", [2, 1]),
    ({}, "", []),
    ({"unknown": 0}, "red green", [1, 0]),
    ({"max_length": 1, "truncation": "right"}, "red blue", [1]),
    ({"max_length": 1, "truncation": "left"}, "red blue", [2]),
    ({"split": "characters"}, "  ", [3, 3]),
    ({"split": "none"}, "red", 1),
    ({"split": "none", "unknown": 0}, "red blue", 0),
    ({"split": "none"}, ["red", " "], [1, 3]),
]


@pytest.mark.parametrize(("params", "value", "ids"), LOOKED_UP)
def test_lookup(words: str, params: dict[str, Any], value: Any, ids: Any) -> None:
    found = steps.load("lookup")(vocabulary=words, **params).open()(value)
    assert (found.dtype, found.tolist()) == (np.int64, ids)


LOOKUP_REFUSALS: list[tuple[dict[str, Any], Any, str]] = [
    ({}, "red green", "'green', which the vocabulary lacks; expected an entry of the vocabulary"),
    ({"split": "none"}, "red blue", "'red blue', which the vocabulary lacks"),
    ({"max_length": 1}, "red blue", "2 entries; expected at most 1"),
    ({"split": "none"}, ["red", 3], "the number 3; expected a list of texts"),
    ({"split": "none"}, {"red": 1}, "an object; expected a list of texts"),
    ({}, "x" * 500, "'x{39}…, which"),
]


@pytest.mark.parametrize(("params", "value", "message"), LOOKUP_REFUSALS)
def test_lookup_refuses(words: str, params: dict[str, Any], value: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        steps.load("lookup")(vocabulary=words, **params).open()(value)


def test_lookup_types(words: str) -> None:
    lookup = steps.load("lookup")
    assert lookup(vocabulary=words).flow(Value(TEXT)) == (Value(TENSOR, "int64", (None,)),)
    assert lookup(vocabulary=words, split="none").flow(Value(TEXT)) == (Value(TENSOR, "int64", ()),)
    assert lookup(vocabulary=words, split="none").flow(Value(JSON)) == (Value(TENSOR, "int64", (None,)),)
    for params, message in (
        ({"max_length": 0}, "max_length is 0; from 1 to 1000000"),
        ({"unknown": -1}, "unknown is -1; error, or an id from 0 on"),
    ):
        with pytest.raises(ValueError, match=message):
            lookup(vocabulary=words, **params).flow(Value(TEXT))
    with pytest.raises(ValueError, match="a JSON list is split already: split is none"):
        lookup(vocabulary=words).flow(Value(JSON))


VOCABULARIES = [
    ("v.json", '{"red": 5, "blue": 7}', [5, 7]),
    ("v.json", '["red", "blue"]', [0, 1]),
    ("v.txt", "\ufeffred\nblue", [0, 1]),
    ("v.json", '{"red": -1}', "the id of 'red' is no whole number from 0 on"),
    ("v.json", '{"red": true}', "the id of 'red' is no whole number from 0 on"),
    ("v.json", "[1]", "holds neither a list of texts nor an object of text → id"),
    ("v.txt", "red\nblue\nred\n", "v.txt holds 'red' twice"),
]


@pytest.mark.parametrize(("name", "content", "found"), VOCABULARIES)
def test_vocabulary_files(tmp_path: Path, name: str, content: str, found: Any) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    step = steps.load("lookup")(vocabulary=str(path))
    if isinstance(found, list):
        assert step.open()("red blue").tolist() == found
        return
    with pytest.raises(ValueError, match=found):
        step.open()
