# mypy: ignore-errors
# Runs in the environment of its peer.
import sys

import litserve as ls
from common import open_model


class Peer(ls.LitAPI):
    def setup(self, device):
        self.model = open_model()

    def decode_request(self, request):
        return request["item"]

    def batch(self, inputs):
        return inputs

    def predict(self, items):
        return self.model.answers(items)

    def unbatch(self, output):
        return list(output)

    def encode_response(self, output):
        return {"answer": output.tolist()}


if __name__ == "__main__":
    api = Peer(max_batch_size=16, batch_timeout=0.002)
    ls.LitServer(api, accelerator="cpu", workers_per_device=1).run(
        port=int(sys.argv[1]), generate_client_file=False, log_level="warning"
    )
