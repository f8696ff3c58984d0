# mypy: ignore-errors
# Runs in the environment of its peer.
import sys

import litserve as ls
from common import Model


class Embedder(ls.LitAPI):
    def setup(self, device):
        self.model = Model()

    def decode_request(self, request):
        return request["text"]

    def batch(self, inputs):
        return inputs

    def predict(self, texts):
        return self.model.embed(texts)

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"embedding": output.tolist()}


if __name__ == "__main__":
    api = Embedder(max_batch_size=16, batch_timeout=0.002)
    ls.LitServer(api, accelerator="cpu", workers_per_device=1).run(
        port=int(sys.argv[1]), generate_client_file=False, log_level="warning"
    )
