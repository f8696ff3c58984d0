# mypy: ignore-errors
# Runs in the environment of its peer.
import bentoml
import numpy as np
from common import open_model


@bentoml.service(workers=1, traffic={"timeout": 30}, logging={"access": {"enabled": False}})
class Peer:
    def __init__(self):
        self.model = open_model()

    @bentoml.api(batchable=True, max_batch_size=16, max_latency_ms=10000)
    def answer(self, items: list[str]) -> np.ndarray:
        return self.model.answers(list(items))
