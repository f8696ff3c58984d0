# mypy: disable-error-code="import-not-found"
"""A Triton Python model as one writes it by hand: tokenize what waits, one session, one answer per request.

Its outputs leave through the bundle's own bridge: the stock server's stub is made for numpy 1.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
import triton_python_backend_utils as pb

sys.path.insert(0, os.environ["BUNDLE"])


class TritonPythonModel:
    def initialize(self, args: Any) -> None:
        import onnxruntime as ort
        from dspec_bundle.triton import bridge
        from tokenizers import Tokenizer

        self.bridge = bridge
        bridge.install()
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = int(os.environ["THREADS"]), 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(os.environ["TOKENIZER"])
        self.tokenizer.enable_truncation(256)
        self.tokenizer.enable_padding()

    def execute(self, requests: Any) -> list[Any]:
        texts: list[str] = []
        counts = []
        for request in requests:
            given = pb.get_input_tensor_by_name(request, "text").as_numpy().reshape(-1)
            texts += [text.decode() for text in given]
            counts.append(len(given))
        found = self.tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in found], np.int64)
        mask = np.array([one.attention_mask for one in found], np.int64)
        (rows,) = self.session.run(None, {"input_ids": ids, "attention_mask": mask})
        ends = np.cumsum(counts)
        return [
            pb.InferenceResponse([self.bridge.numbers("embedding", rows[end - count : end])])
            for count, end in zip(counts, ends, strict=True)
        ]
