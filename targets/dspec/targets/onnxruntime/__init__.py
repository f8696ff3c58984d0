"""ONNX Runtime: one portable graph, a thin pipeline around it, a runner that needs neither torch nor dspec."""
