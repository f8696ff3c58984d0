# mypy: ignore-errors
# Runs in the environment of its peer.
"""What every peer computes: twelve tokens in, an embedding out, the same session options as the bundle's."""

import os

import numpy as np
import onnxruntime as ort
from tokenizers import Tokenizer


class Model:
    def __init__(self):
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(os.environ["THREADS"])
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(os.environ["TOKENIZER"])
        self.tokenizer.enable_padding(pad_id=0)
        self.tokenizer.enable_truncation(256)

    def embed(self, texts):
        found = self.tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in found], np.int64)
        mask = np.array([one.attention_mask for one in found], np.int64)
        return self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]
