"""examples/minilm without a build: texts, eager model, shipped pipeline against training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dspec.targets.shipped.steps.tokenize import Tokenize

MAX_LENGTH = 256
ALIKE = (
    "A man is eating food on a terrace by the sea.",
    "A man eats a meal outside, close to the water.",
)
UNLIKE = "The integral of 1/x from 1 to e equals 1."


@pytest.fixture(scope="module")
def tokenize(minilm_tokenizer_file: str) -> Any:
    return Tokenize(tokenizer=minilm_tokenizer_file, max_length=MAX_LENGTH).open()


@pytest.fixture(scope="module")
def texts(minilm: Any) -> list[str]:
    return [request["text"] for request in minilm.requests("sentences.jsonl")]


def test_the_texts_are_many_and_varied(texts: list[str], tokenize: Any) -> None:
    lengths = [len(tokenize(text)[0]) for text in texts]
    assert len(set(texts)) == len(texts) >= 64
    assert min(lengths) == 2  # an empty text is [CLS] [SEP]
    assert lengths.count(MAX_LENGTH) >= 2  # cut off
    assert sum(not text.isascii() for text in texts) >= 15


def test_the_step_agrees_with_training(minilm: Any, texts: list[str], tokenize: Any) -> None:
    encode = minilm.module("training").encode
    for text in texts:
        trained = encode({"text": text})
        for name, shipped in zip(("input_ids", "attention_mask"), tokenize(text), strict=True):
            assert trained[name].tolist() == shipped.tolist(), f"{name} of {text[:60]!r}"


def test_a_paraphrase_is_nearer_than_another_matter(minilm_model: Any, tokenize: Any) -> None:
    first, second, other = (_embed(minilm_model, tokenize(text)) for text in (*ALIKE, UNLIKE))
    assert first @ second > 0.6
    assert first @ other < 0.2


def test_padding_changes_nothing(minilm_model: Any, tokenize: Any) -> None:
    ids, mask = tokenize(ALIKE[0])
    padded = np.pad(ids, (0, 20)), np.pad(mask, (0, 20))
    alone = _embed(minilm_model, (ids, mask))
    np.testing.assert_allclose(_embed(minilm_model, padded), alone, atol=1e-6)


def _embed(model: Any, encoded: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Unit vector, float32 [384]."""
    import torch

    ids, mask = (torch.from_numpy(array[None]) for array in encoded)
    with torch.inference_mode():
        answer = model(input_ids=ids, attention_mask=mask)
    embedding: np.ndarray = answer["sentence_embedding"][0].numpy()
    return embedding
