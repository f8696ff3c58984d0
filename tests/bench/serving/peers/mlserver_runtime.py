# mypy: ignore-errors
# Runs in the environment of its peer.
from common import open_model
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Peer(MLModel):
    async def load(self) -> bool:
        self.model = open_model()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        items = StringCodec.decode_input(payload.inputs[0])
        found = self.model.answers(items)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("answer", found)])
