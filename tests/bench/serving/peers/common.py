# mypy: ignore-errors
# Runs in the environment of its peer.
"""What every peer computes, over the bundle's own ONNX file with the same session options: a text's embedding, a photograph's five classes."""

import base64
import io
import os

import numpy as np
import onnxruntime as ort


def open_model():
    return Photos() if os.environ["KIND"] == "image" else Texts()


def open_session():
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(os.environ["THREADS"])
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(os.environ["MODEL"], options, providers=["CPUExecutionProvider"])


class Texts:
    def __init__(self):
        from tokenizers import Tokenizer

        self.session = open_session()
        self.tokenizer = Tokenizer.from_file(os.environ["TOKENIZER"])
        self.tokenizer.enable_padding(pad_id=0)
        self.tokenizer.enable_truncation(256)

    def answers(self, texts):
        found = self.tokenizer.encode_batch(texts)
        ids = np.array([one.ids for one in found], np.int64)
        mask = np.array([one.attention_mask for one in found], np.int64)
        return self.session.run(None, {"input_ids": ids, "attention_mask": mask})[0]


class Photos:
    def __init__(self):
        self.session = open_session()

    def answers(self, photos):
        """Rows of five classes and their probabilities for photographs in base64."""
        logits = self.session.run(None, {"pixels": np.stack([self._pixels(one) for one in photos])})[0]
        odds = np.exp(logits - logits.max(1, keepdims=True))
        odds /= odds.sum(1, keepdims=True)
        best = np.argsort(-odds, 1)[:, :5]
        return np.concatenate((best.astype(np.float32), np.take_along_axis(odds, best, 1)), 1)

    def _pixels(self, photo):
        from PIL import Image

        image = Image.open(io.BytesIO(base64.b64decode(photo))).convert("RGB")
        side = int(min(image.size) * 0.875)
        left, top = (image.width - side) // 2, (image.height - side) // 2
        small = image.crop((left, top, left + side, top + side)).resize((224, 224), Image.Resampling.BICUBIC)
        return ((np.asarray(small, np.float32) - 127) / 128).transpose(2, 0, 1)
