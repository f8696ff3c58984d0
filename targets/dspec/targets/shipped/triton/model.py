"""Triton's way in. Lies as `model.py` in the model's version folder, beside `settings.json`, `dspec_bundle/` and `pipeline/`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

sys.dont_write_bytecode = True  # the folder stays as it was shipped; the server embeds Python without its environment
TRACE = "DSPEC_TRACE"  # set where a bundle is measured: what stood at the model's door can then be asked for


class TritonPythonModel:
    """`settings.json`: kind (a module of dspec_bundle.triton), python, trace (further outputs), and what the kind reads."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: Any) -> Any:
        """The configuration is complete. Outputs for measuring stand in no file, so that what is measured is what ships."""
        if os.environ.get(TRACE) == "1":
            for output in _settings(os.path.dirname(os.path.abspath(__file__)))["trace"]:
                auto_complete_model_config.add_output(output)
        return auto_complete_model_config

    def initialize(self, args: dict[str, str]) -> None:
        """Raises RuntimeError in words where this is another Python than the bundle was made for."""
        folder = os.path.join(args["model_repository"], args["model_version"])
        settings = _settings(folder)
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        if here != settings["python"]:
            raise RuntimeError(
                f"{args['model_name']} was made for Python {settings['python']}, and the server runs it with {here} "
                f"({sys.executable}): put an environment of Python {settings['python']} with requirements.txt first on PATH"
            )
        sys.path.insert(0, folder)
        kind = importlib.import_module(f"dspec_bundle.triton.{settings['kind']}")
        self._model = kind.open_model(folder, settings)

    def execute(self, requests: list[Any]) -> list[Any]:
        found: list[Any] = self._model.execute(requests)
        return found


def _settings(folder: str) -> dict[str, Any]:
    with open(os.path.join(folder, "settings.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found
