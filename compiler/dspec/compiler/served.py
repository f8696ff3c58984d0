"""What targets are given: the captured truth as it is, or that between the caller's steps and of the graph with its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dspec.compiler import stages
from dspec.compiler.pipeline import write_pipeline
from dspec.compiler.placed import placed
from dspec.compiler.stage import Report, run_stage, work_folder
from dspec.compiler.store import Store, Tree, part
from dspec.spec.boundary import served
from dspec.spec.errors import DspecError
from dspec.spec.load import Loaded
from dspec.spec.models import Spec
from dspec.spec.placement import fuses, moved
from dspec.spec.records import Interface, Reference, Spread
from dspec.targets import catalogue


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """`spec` holds the steps that stay on the host alone; program, reference and pipeline meet at the graph's door."""

    spec: Spec
    program: Tree
    reference: Tree
    pipeline: Tree
    source: Reference
    spread: dict[str, Spread]

    @classmethod
    def of(cls, spec: Spec, program: Tree, reference: Tree, pipeline: Tree, value: Mapping[str, Any]) -> Served:
        """`value`: what the stage that made the reference said of it."""
        return cls(
            spec=spec,
            program=program,
            reference=reference,
            pipeline=pipeline,
            source=Reference.model_validate_json(json.dumps(value["reference"])),
            spread={name: Spread.model_validate(found) for name, found in value["spread"].items()},
        )


def fused(loaded: Loaded, captured: Served, store: Store, report: Report) -> Served:
    """What `captured` becomes once the spec's steps in the graph are fused and the caller's left out; itself without any.

    Raises ExportError at a line of the spec where the steps and the model don't make one graph, and SpecError where a
    fixture can't cross from the caller to the bundle.
    """
    spec = captured.spec
    if not moved(spec):
        return captured
    own = served(spec, catalogue())
    host = pipeline_of(own, loaded.folder, store)
    try:
        program = captured.program
        if fuses(spec):
            program = part(run_stage(store, stages.fuse_stage(loaded, program), report).tree, "program")
        stage = stages.refer_stage(spec, captured.program, program, captured.reference, captured.pipeline, host)
        outcome = run_stage(store, stage, report)
    except DspecError as error:
        raise placed(error, loaded) from error
    reference, pipeline = part(outcome.tree, "reference"), part(outcome.tree, "pipeline")
    return Served.of(own, program, reference, pipeline, outcome.value)


def pipeline_of(spec: Spec, folder: Path, store: Store, interface: Interface | None = None) -> Tree:
    """The pipeline folder of a spec that lies in `folder`; `interface`: the model's, once capture knows it."""
    with work_folder(store, "pipeline") as work:
        write_pipeline(spec, folder, work, interface)
        return store.keep(work)
