# mypy: ignore-errors
# Runs in the environment of its peer.
import bentoml
import numpy as np
from common import Model


@bentoml.service(workers=1, traffic={"timeout": 30}, logging={"access": {"enabled": False}})
class Embedder:
    def __init__(self):
        self.model = Model()

    @bentoml.api(batchable=True, max_batch_size=16, max_latency_ms=10000)
    def embed(self, texts: list[str]) -> np.ndarray:
        return self.model.embed(list(texts))
