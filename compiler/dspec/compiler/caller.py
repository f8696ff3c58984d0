"""The caller's side of a bundle: the steps that it leaves to whoever asks it, as dspec itself does them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dspec.targets.shipped.errors import BundleError
from dspec.targets.shipped.pipeline import Trace, kept, open_stages, run_stages
from dspec.targets.shipped.request import check_request


class Caller:
    """`declared`: the content of a bundle's pipeline.json, in `folder` with the files that the steps need."""

    def __init__(self, declared: Mapping[str, Any], folder: Path) -> None:
        self._bundle: Mapping[str, Any] = declared["request"]
        contract = declared.get("contract") or {"request": self._bundle, "before": [], "after": [], "response": {}}
        self.fields: Mapping[str, Any] = contract["request"]
        self._answer: Mapping[str, str] = contract["response"]
        self._before = open_stages(contract["before"], folder, {name: {name} for name in self.fields})
        self.owes_before = bool(contract["before"])
        self._after = open_stages(contract["after"], folder, {name: {name} for name in declared["response"]})

    @classmethod
    def of(cls, folder: Path) -> Caller:
        """The caller of the bundle with this `pipeline/` folder."""
        return cls(json.loads((folder / "pipeline.json").read_text()), folder)

    def before(self, raw: Mapping[str, Any], trace: Trace | None = None) -> dict[str, Any]:
        """The bundle's request for a raw one, both in Python form. Raises RequestError and StepError."""
        values = run_stages(self._before, check_request(self.fields, raw), trace)
        return check_request(self._bundle, {name: kept(values[name]) for name in self._bundle})

    def after(self, response: Mapping[str, Any], trace: Trace | None = None) -> dict[str, Any]:
        """The whole response for the bundle's. Raises StepError, and BundleError where a value is missing."""
        if not self._after:
            return dict(response)
        values = run_stages(self._after, response, trace)
        missing = [source for source in self._answer.values() if source not in values]
        if missing:
            raise BundleError(f"the bundle gave no {missing[0]}")
        return {field: values[source] for field, source in self._answer.items()}
