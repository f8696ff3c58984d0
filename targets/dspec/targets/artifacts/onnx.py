"""Program → one ONNX file, with what it promises read back from it.

convert   torch's exporter on a copy of the program          onnx_convert
bind      the interface's names and dims, nothing of here    onnx_graph
write     the same bytes everywhere                          onnx_write
check     the written file against the interface             onnx_check
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dspec.targets.protocol import Artifact, Program

FILE = "model.onnx"
ORIGINS = "origins.json"  # beside the model, never shipped: node → the user's line, for errors of later stages
TOOLCHAIN = ("torch", "onnx", "onnxscript", "onnx_ir")


class OnnxBuilder:
    """`options`: `opset`, 0 for the exporter's own choice."""

    name = "onnx"

    def build(self, program: Program, options: Mapping[str, Any], out: Path) -> Artifact:
        """Write `model.onnx` (from 2 GB on also `model.onnx.data`) into `out` and read it back.

        Raises:
            ExportError: E05xx, with the operator, the module path and the user's line where they are known.
        """
        from dspec.targets.artifacts import onnx_check, onnx_write

        out.mkdir(parents=True, exist_ok=True)
        opset = int(options.get("opset", 0))
        model, origins = _converted(program, opset)
        onnx_write.write(model, out / FILE)
        del model  # the weights: checking reads them once more, from the file
        (out / ORIGINS).write_text(json.dumps(origins, sort_keys=True))
        facts = onnx_check.check(out / FILE, program.interface, origins, opset=opset)
        toolchain = {name: version(name) for name in TOOLCHAIN}
        return Artifact(name=self.name, folder=out, file=FILE, facts=facts, toolchain=toolchain)


def _converted(program: Program, opset: int) -> tuple[Any, dict[str, str]]:
    from dspec.targets.artifacts import onnx_convert, onnx_graph

    model = onnx_convert.convert(program, opset)
    onnx_graph.bind(model, program.interface, program.symbols)
    origins = onnx_convert.origins(model)
    onnx_graph.strip(model)
    return model, origins


BUILDER = OnnxBuilder()
