"""Reasoned answers to runtimes that dspec does not offer, and why."""

from __future__ import annotations

from dspec.spec.catalogue import Catalogue
from dspec.spec.nearest import did_you_mean, listed

_RETIRED = {
    "torchserve": (
        "TorchServe is unmaintained: no release since 0.12.0 of 2024-09-30",
        "serve with a maintained runtime; PyTorch itself is served by `fastapi` (engine: eager) or `triton`",
    ),
    "torchscript": (
        "TorchScript is in maintenance mode; PyTorch's own way out is torch.export",
        "dspec exports from the nn.Module: name the factory that builds it and choose `onnxruntime` or `executorch`",
    ),
    "vllm": (
        "it serves autoregressive language models; dspec proves models whose forward is one call",
        "serve the language model with vLLM or SGLang themselves today; use dspec for the encoders and classifiers around it",
    ),
    "tensorflow": (
        "TensorFlow Serving would need a second conversion, which dspec can't hold against PyTorch",
        "choose `onnxruntime`: one portable graph that C++, Java, C# and JavaScript load",
    ),
    "tensorrt": (
        "TensorRT is an engine inside ONNX Runtime and Triton here, and no runtime of its own",
        "choose `onnxruntime` and a CUDA profile once its GPU providers are offered; until then ONNX Runtime on CPU",
    ),
    "coreml": (
        "Core ML is a delegate of ExecuTorch here, and no runtime of its own",
        "choose `executorch` with `hardware: ios-arm64`",
    ),
    "bentoml": (
        "BentoML packages a server around code of yours",
        "choose `fastapi`: its bundle carries the same, proved",
    ),
    "onnx": ("ONNX is a file format", "choose `onnxruntime`, which runs it"),
    "pytorch": ("PyTorch itself is an engine", "choose `fastapi` with `options: {engine: eager}`, or `onnxruntime`"),
}
_ALIASES = {
    "sglang": "vllm", "tgi": "vllm", "tensorrt-llm": "vllm", "trtllm": "vllm", "ollama": "vllm", "llama.cpp": "vllm",
    "jit": "torchscript", "libtorch": "torchscript", "pytorch-mobile": "torchscript",
    "tf-serving": "tensorflow", "tensorflow-serving": "tensorflow", "tflite": "tensorflow", "litert": "tensorflow",
    "trt": "tensorrt", "ort": "onnx", "torch": "pytorch", "eager": "pytorch", "core-ml": "coreml",
}  # fmt: skip
KNOWN = ("auto", "executorch", "fastapi", "onnxruntime", "triton")  # the language's own; an installation may lack some


def runtime_answer(name: str, catalogue: Catalogue) -> tuple[str, str, str]:
    """Code, message and hint for a runtime that the catalogue does not hold."""
    key = name.lower()
    offered = listed(sorted(catalogue.runtimes))
    if key in KNOWN and key not in catalogue.runtimes:
        return "E0211", f"the runtime `{name}` is not offered by this installation", f"offered are: {offered}"
    retired = _RETIRED.get(_ALIASES.get(key, key))
    if retired:
        return "E0210", f"`{name}` is no runtime of dspec: {retired[0]}", retired[1]
    return "E0209", f"unknown runtime `{name}`", did_you_mean(name, catalogue.runtimes, f"choose {offered}")
