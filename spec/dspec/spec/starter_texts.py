"""The texts of `dspec init`."""

from __future__ import annotations

SCHEMA = "deploy.schema.json"

IGNORED = """\
# dspec: the cache, and the large files of bundles. Their digests stand in bundle.json, which is text and belongs to Git.
.dspec/
bundles/**/*.onnx
bundles/**/*.onnx.data
bundles/**/*.onnx_data
bundles/**/*.pte
bundles/**/*.safetensors
bundles/**/*.npz
"""
ATTRIBUTES = """\
# dspec: bundle.json holds a digest of every file of a bundle, so Git must not change their line ends.
bundles/** -text
# Large files are ignored (.gitignore). Whoever wants them in the repository removes them there and uses Git LFS:
# bundles/**/*.onnx filter=lfs diff=lfs merge=lfs -text
bundles/**/*.onnx binary
bundles/**/*.onnx.data binary
bundles/**/*.pte binary
bundles/**/*.npz binary
"""

HEAD = f"""\
# yaml-language-server: $schema={SCHEMA}
apiVersion: dspec/v1alpha1
name: {{name}}
version: "1"                             # names what runs; a quoted whole number
owner: ""                                # who answers for it

model:
  factory: {{factory}}                # file.py:callable → nn.Module
  # config: {{{{}}}}                           # keyword arguments of the factory
  # code: {{{{sources: ["*.py"], requirements: []}}}}   # your other modules, and exact versions of what they import
"""


def tail(fixtures: str) -> str:
    """What stands below the model; `fixtures` as a YAML scalar."""
    return f"""
# One request as a caller sends it. Absent: the model's inputs as tensors, without the batch axis.
# request: {{text: {{type: text, max_bytes: 20000}}}}
# preprocess:
#   - {{use: tokenize, tokenizer: tokenizer.json, max_length: 128}}
# training: {{preprocess: training.py:encode}}   # the training-time code that the pipeline is held against

fixtures:                                # real requests, one JSON object a line
  - file: {fixtures}

targets:                                 # id → one bundle
  local: {{runtime: onnxruntime, hardware: host}}   # `host` is the machine that builds

# Limits. A gate without a limit is not asked, and `dspec plan` says so.
# slo: {{latency_ms: {{p95: 50}}, min_throughput_rps: 20, cold_start_s: 30}}
# load: {{rate_rps: 20, duration_s: 25, max_duration_s: 60}}
# tolerance: {{default: {{atol: 1e-4, rtol: 1e-3}}}}
"""
