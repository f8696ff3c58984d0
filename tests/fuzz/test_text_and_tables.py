"""Text and table steps against whatever a caller may send: a value or a RequestError, soon, and nothing else."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from dspec.targets.shipped import steps
from dspec.targets.shipped.errors import RequestError
from dspec.targets.shipped.pipeline import Pipeline

FUZZ = settings.get_profile("dspec-fuzz")
# A long text is printed when an example fails.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")
VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "red": 4, "blue": 5}
SOON = 10.0  # seconds, for the largest texts here, on a machine that does other things too

TEXTS: Any = st.one_of(
    st.text(max_size=50),
    st.text(st.characters(categories=["Cs", "Mn", "Zs", "Cc", "Lo"]), max_size=80),
    st.sampled_from(["", "\0", "\ud800", "red \udfff", " \u2028\t", "\ufdfa" * 500, "İ" * 500, "\U0010ffff", "-1", "nan"]),
    st.builds(
        lambda part, count: part * count, st.sampled_from(["a", "red ", "\u0301\u0327", "ﷺ", "👩‍👩‍👧", "\n"]),
        st.sampled_from([1, 7, 31, 500, 20_000])
    ),
)  # fmt: skip
CELLS: Any = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just("red"),
        st.sampled_from([400, 5000]).map(lambda digits: -(10**digits)),  # no number: Hypothesis would print it
        st.sampled_from(["\ud800", "x" * 5000, 2**63, 1e308, -1e308]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES: Any = st.sampled_from(["a", "b", "color", "c", "", "A", "a ", "\ud800", "x" * 5000])
ROWS: Any = st.dictionaries(NAMES, CELLS, max_size=6) | CELLS


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "words.txt").write_text("\n".join(VOCABULARY))
    return folder


@functools.cache
def tokenizer(files: Path, **params: Any) -> Callable[..., Any]:
    run: Callable[..., Any] = steps.load("tokenize")(
        tokenizer=str(files / "tokenizer.json"), max_length=16, **params
    ).open()
    return run


TOKENIZERS: list[dict[str, Any]] = [
    {},
    {"truncation": "left", "padding": "max_length"},
    {"truncation": "error"},
    {"multiple_of": 4},
    {"add_special_tokens": False},
]


@pytest.mark.parametrize("params", TOKENIZERS)
@given(text=TEXTS, pair=st.none() | TEXTS)
@FUZZ
def test_any_text_for_tokenize(files: Path, params: dict[str, Any], text: str, pair: str | None) -> None:
    run = tokenizer(files, **params)
    start = time.perf_counter()
    with suppress(RequestError):
        ids, mask = run(text, pair)
        assert ids.size == mask.size <= 16
    assert time.perf_counter() - start < SOON


@pytest.mark.parametrize("rule", ["longest_first", "only_first", "only_second"])
@given(text=TEXTS, pair=TEXTS)
@FUZZ
def test_any_pair_for_tokenize(files: Path, rule: str, text: str, pair: str) -> None:
    with suppress(RequestError):
        assert tokenizer(files, pair_truncation=rule)(text, pair)[0].size <= 16


def test_a_long_pair_takes_no_more_memory_than_its_tokens(files: Path) -> None:
    """The library's own truncation keeps what it cuts off in every combination: here 30 million pieces."""
    start = time.perf_counter()
    ids, _ = tokenizer(files)("red " * 50_000, "blue " * 50_000)
    assert ids.tolist() == [2, *[4] * 6, 3, *[5] * 7, 3]
    assert time.perf_counter() - start < SOON


@functools.cache
def normalizer(form: str, case: str) -> Callable[[str], str]:
    run: Callable[[str], str] = steps.load("normalize_text")(form=form, case=case, whitespace="collapse").open()
    return run


@pytest.mark.parametrize("form", ["none", "nfc", "nfd", "nfkc", "nfkd"])
@given(case=st.sampled_from(["keep", "lower", "fold"]), text=TEXTS)
@FUZZ
def test_any_text_for_normalize_text(form: str, case: str, text: str) -> None:
    run = normalizer(form, case)
    start = time.perf_counter()
    with suppress(RequestError):
        found = run(text)
        assert run(found) == found or case == "lower"  # lower of a lone capital sigma depends on its neighbours
        assert len(found) <= 40 * len(text)  # U+FDFA becomes 18 letters, and more when taken apart
    assert time.perf_counter() - start < SOON


@pytest.mark.parametrize("split", ["whitespace", "characters", "none"])
@pytest.mark.parametrize("unknown", ["error", 1])
@given(text=TEXTS)
@FUZZ
def test_any_text_for_lookup(files: Path, split: str, unknown: str | int, text: str) -> None:
    run = steps.load("lookup")(vocabulary=str(files / "words.txt"), split=split, unknown=unknown).open()
    with suppress(RequestError):
        assert run(text).size <= 512


@given(value=CELLS)
@FUZZ
def test_any_list_for_lookup(files: Path, value: Any) -> None:
    run = steps.load("lookup")(vocabulary=str(files / "words.txt"), split="none", unknown=1).open()
    with suppress(RequestError):
        assert run(value).dtype == np.int64


@pytest.mark.parametrize(
    "params", [{}, {"missing": "nan"}, {"fill": {"b": 1.0}, "others": ("color",)}, {"booleans": "number"}]
)
@given(row=ROWS)
@FUZZ
def test_any_row_for_columns(params: dict[str, Any], row: Any) -> None:
    run = steps.load("columns")(names=("a", "b"), **params).open()
    with suppress(RequestError):
        found = run(row)
        assert (found.dtype, found.shape) == (np.float64, (2,))
        assert np.isfinite(found).all() or params.get("missing") == "nan"


@pytest.mark.parametrize("encoding", ["one_hot", "index"])
@pytest.mark.parametrize("unknown", ["refuse", "other"])
@given(row=ROWS)
@FUZZ
def test_any_row_for_categories(encoding: str, unknown: str, row: Any) -> None:
    missing = "unknown" if unknown == "other" else "refuse"
    run = steps.load("categories")(
        values={"color": ("red", "blue", 1), "a": (True, 2)}, encoding=encoding, unknown=unknown, missing=missing
    ).open()
    with suppress(RequestError):
        assert run(row).shape == ((2,) if encoding == "index" else (7,) if unknown == "other" else (5,))


TABLE = {
    "request": {"row": {"type": "json", "max_bytes": 4000}},
    "before": [
        {"id": "n", "use": "columns", "params": {"names": ["a", "b"], "fill": {"b": 1}, "others": ["color"]},
         "in": ["row"], "out": ["n"]},
        {"id": "s", "use": "standardize", "params": {"mean": [1.0, 2.0], "std": [1e-3, 2.0]}, "in": ["n"], "out": ["s"]},
        {"id": "l", "use": "clip", "params": {"low": -10.0, "high": [5.0, 10.0]}, "in": ["s"], "out": ["l"]},
        {"id": "c", "use": "categories", "params": {"values": {"color": ["red", "blue"]}, "unknown": "other",
         "missing": "unknown"}, "in": ["row"], "out": ["c"]},
        {"id": "x", "use": "concat", "params": {}, "in": ["l", "c"], "out": ["x"]},
    ],
    "inputs": {"x": {"dtype": "float32", "shape": ["batch", 5], "range": [-10, 10]}},
    "outputs": {"y": {"dtype": "float32", "shape": ["batch", 2], "range": None}},
    "dims": {"batch": {"min": 1, "max": 8, "multiple_of": 1}}, "batch": "batch",
    "after": [], "response": {"y": "y"},
}  # fmt: skip


@given(row=ROWS)
@FUZZ
def test_any_row_for_a_whole_pipeline(tmp_path_factory: pytest.TempPathFactory, row: Any) -> None:
    pipeline = Pipeline(json.loads(json.dumps(TABLE)), tmp_path_factory.getbasetemp())
    right = pipeline.before({"row": {"a": 1, "b": None, "color": "green"}})["x"]
    assert right.tolist() == [[0, -0.5, 0, 0, 1]]
    with suppress(RequestError):
        assert pipeline.before({"row": row})["x"].dtype == np.float32
