# mypy: ignore-errors
# Runs in the environment of its peer.
from common import Model
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Embedder(MLModel):
    async def load(self) -> bool:
        self.model = Model()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        texts = StringCodec.decode_input(payload.inputs[0])
        found = self.model.embed(texts)
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("embedding", found)])
