"""all-MiniLM-L6-v2: a BERT encoder whose token vectors are averaged and scaled to unit length."""

from __future__ import annotations

import torch
from transformers import BertConfig, BertModel


class SentenceEmbedder(BertModel):
    """Token ids in, one unit vector per text out.

    It is a BertModel rather than it holds one: so the checkpoint's keys are the module's own.
    """

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Both inputs: int64 [batch, seq]. Gives `sentence_embedding`, float32 [batch, 384]."""
        encoded = super().forward(input_ids=input_ids, attention_mask=attention_mask)
        tokens = encoded.last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(tokens.dtype)
        # The clamp is sentence-transformers' own: a text without tokens gives zeros, not NaN.
        mean = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return {"sentence_embedding": torch.nn.functional.normalize(mean, dim=1)}


def build(layers: int = 6) -> SentenceEmbedder:
    """The module without its weights; the sizes are those of the published config.json."""
    config = BertConfig(
        vocab_size=30522,
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=layers,
        num_attention_heads=12,
        max_position_embeddings=512,
    )
    return SentenceEmbedder(config, add_pooling_layer=False).eval()
