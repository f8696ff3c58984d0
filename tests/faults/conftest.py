"""The product's own stages, one after another in this process: spec file → capture → ONNX → bundle → session → verdict."""

from __future__ import annotations

import datetime
import functools
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from dspec.compiler import stages
from dspec.compiler.captured import capture_stage
from dspec.compiler.evidence import measurement
from dspec.compiler.golden import write_golden_vectors
from dspec.compiler.judge import judge, unlike_pytorch
from dspec.compiler.lower import build_artifact, lower_target
from dspec.compiler.machine import this_machine
from dspec.compiler.measure.cases import reference_cases
from dspec.compiler.measure.parity import Responses, Wanted, parity_cases
from dspec.compiler.measure.vary import FAILED, varied
from dspec.compiler.pipeline import write_pipeline
from dspec.compiler.policy import policies
from dspec.compiler.results import TargetResult, telling_what_stays_open
from dspec.compiler.seal import seal
from dspec.compiler.skew.stage import skew_stage
from dspec.compiler.stage import Outcome, run_stage
from dspec.compiler.store import Store, Tree, describe, tree_digest
from dspec.spec.errors import Diagnostic, ExportError, GateError
from dspec.spec.load import Loaded, load
from dspec.spec.records import Case, GateVerdict, Manifest, Measurement, Parity, Reference, Skew
from dspec.targets import catalogue, runtime
from dspec.targets.protocol import Answer
from dspec.targets.shipped.errors import BundleError, RequestError
from dspec.targets.shipped.runner import Bundle

TODAY = datetime.date(2026, 11, 30)
TARGET = "here"


@dataclass(frozen=True)
class Made:
    """A sealed bundle, open, with what the stages said on the way."""

    loaded: Loaded
    folder: Path
    reference: Path
    manifest: Manifest
    bundle: Bundle
    warnings: tuple[Diagnostic, ...]
    lines: tuple[str, ...]

    def parity(self) -> Parity:
        """Every reference case through the open bundle, twice, as the measuring stage does it."""
        figures = stages.figures(policies(self.loaded.spec, self.manifest.interface))
        wanted = Wanted.read(figures)
        cases = reference_cases(self.reference, self.bundle.pipeline.fields)
        index = json.loads((self.reference / "index.json").read_text())
        found = tuple(
            parity_cases(InProcess(self.bundle), cases, wanted, print, responses=Responses(self.bundle.pipeline))
        )
        return Parity.model_validate_json(
            json.dumps(
                {
                    "cases": [case.model_dump(mode="json") for case in found],
                    "spread": index["spread"],
                    "on": self.bundle.facts["provider"],
                }
            )
        )

    def verdict(self) -> GateVerdict:
        """What the judge says of that."""
        proof: dict[str, Any] = {
            "parity": self.parity().model_dump(mode="json"),
            "cold_start_s": [],
            "peak_memory_bytes": None,
            "smoke": "ok",
            "facts": dict(self.bundle.facts),
        }
        load = {"throughput": None, "latency": None, "peak_memory_bytes": None}
        machine = this_machine(self.manifest.cores)
        found = measurement(self.manifest, machine, proof, load, golden=False)
        found = found.model_copy(update={"variations": self._variations(found)})
        return judge(self.loaded.spec, TARGET, self.manifest.interface, (found,), TODAY)[0]

    def skew(self, out: Path) -> GateVerdict:
        """The verdict of the skew gate."""
        stage = stages.skew_stage(self.loaded, (), (), ())
        assert stage
        inputs = {"program": out / "captured" / "program", "reference": self.reference, "pipeline": out / "pipeline"}
        found = skew_stage(json.loads(json.dumps(stage.request)), stage.places, inputs, out, print)
        record = Skew.model_validate_json(json.dumps(found["value"]))
        nothing = {"throughput": None, "latency": None, "peak_memory_bytes": None}
        machine = this_machine(self.manifest.cores)
        measured = measurement(self.manifest, machine, {}, nothing, golden=False, skew=record)
        verdicts = judge(self.loaded.spec, TARGET, self.manifest.interface, (measured,), TODAY)
        return next(verdict for verdict in verdicts if verdict.gate == "skew")

    def _variations(self, found: Measurement) -> dict[str, tuple[Case, ...]]:
        """The failing cases under other options of the same bundle, as the stage `vary` tries them."""
        off = unlike_pytorch(self.loaded.spec, TARGET, self.manifest.interface, found)
        ways = runtime(self.manifest.runtime).variations(self.manifest.options) if off else {}
        cases = [case for case in reference_cases(self.reference, self.bundle.pipeline.fields) if case.id in off]
        wanted = Wanted.read(stages.figures(policies(self.loaded.spec, self.manifest.interface)))
        return {
            words: tuple(
                parity_cases(
                    InProcess(Bundle(folder)), cases[:FAILED], wanted, print, responses=Responses(self.bundle.pipeline)
                )
            )
            for words, folder in varied(self.folder, ways)
        }


class InProcess:
    """A `Session` over a bundle of this process."""

    pids = (os.getpid(),)
    together = 1

    def __init__(self, bundle: Bundle) -> None:
        self.bundle, self.facts = bundle, bundle.facts

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Answer:
        try:
            found = self.bundle.ask(request)
        except (RequestError, BundleError) as error:
            raise GateError.of("E0700", str(error)) from error
        return Answer(response=found.response, inputs=found.door, outputs=found.outputs, seconds=found.seconds)

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return self.bundle.run(tensors)
        except (RequestError, BundleError) as error:
            raise GateError.of("E0700", str(error)) from error

    def close(self) -> None: ...


def make(spec_file: Path, out: Path) -> Made:
    """Every stage of a build but the measuring; whatever it raises comes through."""
    lines: list[str] = []
    loaded = load(spec_file, catalogue(), today=TODAY)
    target = loaded.spec.targets[TARGET]
    candidate = stages.candidate_of(loaded.spec, target)
    write_pipeline(loaded.spec, loaded.folder, out / "pipeline")
    asking = stages.capture_stage(loaded, ())
    (out / "captured").mkdir()
    given = {"pipeline": out / "pipeline"}
    captured = capture_stage(
        json.loads(json.dumps(asking.request)), asking.places, given, out / "captured", lines.append
    )
    (wanted,) = candidate.artifacts
    program = {"program": out / "captured" / "program"}
    asked = stages.artifact_stage(wanted, ())
    artifact = build_artifact(asked.request, {}, program, out / "artifact", lines.append)
    outcome = Outcome(tree=(), value=artifact["value"], warnings=(), hit=False)
    request = stages.lower_stage(loaded.spec, TARGET, candidate, (), (), (outcome,)).request
    folder = out / "bundle"
    folder.mkdir()
    inputs = {**program, "pipeline": out / "pipeline", "artifact0": out / "artifact"}
    try:
        lowered = lower_target(json.loads(json.dumps(request)), {}, inputs, folder, lines.append)
    except ExportError as error:
        stopped = TargetResult(target=TARGET, optional=False, error=error)
        (told,) = telling_what_stays_open((stopped,), loaded.spec)
        assert told.error
        raise told.error from error
    reference = out / "captured" / "reference"
    counts = stages.golden_stage(loaded.spec, (), (), unfused=(), whole=()).request
    golden = {
        "reference": reference,
        "unfused": reference,
        "pipeline": folder / "pipeline",
        "whole": folder / "pipeline",
    }
    write_golden_vectors(counts, {}, golden, folder, lines.append)
    origin = Reference.model_validate_json(json.dumps(captured["value"]["reference"]))
    manifest = seal(folder, describe(folder), loaded.spec, TARGET, candidate, lowered["value"], origin)
    return Made(
        loaded=loaded,
        folder=folder,
        reference=reference,
        manifest=manifest,
        bundle=Bundle(folder),
        warnings=(*loaded.warnings, *captured["warnings"]),
        lines=tuple(lines),
    )


@pytest.fixture(scope="session")
def stages_of() -> Any:
    return make


@pytest.fixture(autouse=True, scope="session")
def one_registry() -> Iterator[None]:
    """Torch reads its table of translations anew for each export: a second that a hundred exports here can share."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    once: Any = functools.cache(ONNXRegistry.from_torchlib.__func__)  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            ONNXRegistry, "from_torchlib", classmethod(lambda cls, opset_version=18: once(cls, opset_version))
        )
        yield


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """A build leaves torch as it found it."""
    before = (torch.get_num_threads(), torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled())
    yield
    after = (torch.get_num_threads(), torch.get_default_dtype(), torch.backends.mha.get_fastpath_enabled())
    assert after == before


def staged(spec_file: Path, out: Path) -> str:
    """Digest of the same files made by the stage runner, each stage in a child of its own, as `dspec build` does it."""
    loaded, store = load(spec_file, catalogue(), today=TODAY), Store(root=out / "store")
    write_pipeline(loaded.spec, loaded.folder, out / "pipeline")
    pipeline = store.keep(out / "pipeline")
    captured = run_stage(store, stages.capture_stage(loaded, pipeline), print)
    program = _below(captured.tree, "program/")
    candidate = stages.candidate_of(loaded.spec, loaded.spec.targets[TARGET])
    artifacts = tuple(run_stage(store, stages.artifact_stage(wanted, program), print) for wanted in candidate.artifacts)
    lowering = stages.lower_stage(loaded.spec, TARGET, candidate, program, pipeline, artifacts)
    return tree_digest((*captured.tree, *run_stage(store, lowering, print).tree))


def _below(tree: Tree, prefix: str) -> Tree:
    inside = (entry for entry in tree if entry.path.startswith(prefix))
    return tuple(entry.model_copy(update={"path": entry.path.removeprefix(prefix)}) for entry in inside)


if __name__ == "__main__":  # another process, with another hash seed, in another place
    print(staged(Path(sys.argv[1]), Path(sys.argv[2])))
