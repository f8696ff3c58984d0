"""The values that cross the boundary between the compiler and a runtime: frozen, paths and names, no torch.

A runtime outside this repository implements `Runtime` and joins through the entry-point group `dspec.runtimes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec, Target
from dspec.spec.records import Interface, Metric, TensorDigest


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A captured model on disk.

    Attributes:
        path: the exported program (`torch.export.load`): a flat module, tensors in interface order in, a tuple of
            tensors in interface order out. Whoever lowers opens its own copy: lowering changes the program.
        interface: declared names, dtypes, shapes, dims, in order.
        symbols: exported symbol → declared dim (`{"s77": "batch"}`).
        sources: fx node name → `file:line` of the user's own code, relative to the spec.
        tensors: digest, norm and mean of every weight.
    """

    path: Path
    interface: Interface
    symbols: Mapping[str, str]
    sources: Mapping[str, str]
    tensors: tuple[TensorDigest, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Module:
    """The user's module as capture built and called it; its weights are those of the program.

    Attributes:
        folder: holds `files`, the user's own that were loaded, by paths relative to the spec.
        factory, config: what made it.
        inputs: forward's arguments by name, in the order of the spec.
        outputs: `names`, `paths` and `count` of `shipped.forward.Answers`.
        copied: positions of inputs that forward changes in place.
        distributions: those that its code imported.
        outside: names of files that it loaded from a package without a version (an editable install).
    """

    folder: Path
    factory: str
    config: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: Mapping[str, Any]
    copied: tuple[int, ...]
    files: tuple[str, ...]
    distributions: tuple[str, ...]
    outside: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """What a builder made: a folder with `file` in it (and files that `file` refers to), and what was read back.

    `warnings` are told by the build that ran the builder, and by every one that takes its artifact from the store.
    """

    name: str
    folder: Path
    file: str
    facts: Mapping[str, Any]
    toolchain: Mapping[str, str]
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """An artifact that a candidate asks for: built once per program and options, whoever asks."""

    builder: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """runtime × engine × variant: what plan, evidence, decision and cache are keyed by.

    `on_host_kernels`: the bundle runs on other machines than its target's too, by other kernels, and what it answers there
    speaks for the target; how fast it is does not.
    `module`: it runs the user's own module, and lowering is given its sources.
    """

    runtime: str
    engine: str
    variant: str
    artifacts: tuple[Wanted, ...]
    reasons: tuple[str, ...] = ()
    on_host_kernels: bool = False
    module: bool = False

    @property
    def key(self) -> str:
        return f"{self.runtime}/{self.engine}/{self.variant}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """Everything `Runtime.lower` may read. `artifacts` are in the order the candidate asked for them.

    `module`: None unless the candidate asks for it.
    """

    spec: Spec
    target_id: str
    target: Target
    candidate: Candidate
    options: Any
    program: Program
    artifacts: tuple[Artifact, ...]
    module: Module | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Lowered:
    """What `Runtime.lower` left in the bundle's folder.

    Attributes:
        model: goes into bundle.json: at least `path` and `format`.
        command: serves the bundle from inside its folder.
        modules: files that travel in `dspec_bundle/` beside pipeline and steps: at least `engine_<engine>.py`.
        requirements: exact versions (`onnxruntime==1.32.0`) beyond those of the pipeline's steps.
        options: the options that are in force, defaults included.
        toolchain: versions that decide the artifact's bytes.
        copies: folders of the bundle, and where in it they are to lie once more when all is written.
        stamped: files that hold twelve zeros (`FileEntry.stamp`), which the digest's first digits replace in the end.
    """

    model: Mapping[str, Any]
    command: tuple[str, ...]
    modules: tuple[Path, ...]
    requirements: tuple[str, ...]
    options: Mapping[str, Any]
    toolchain: Mapping[str, str]
    metrics: tuple[Metric, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    stamped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Where a bundle's command runs: an interpreter with just the bundle's requirements, and the CPUs granted."""

    python: Path
    cpus: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One answer of a session: response fields, tensors in and out of the model's door when asked for, seconds per stage."""

    response: Mapping[str, Any]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    seconds: Mapping[str, float]


class Session(Protocol):
    """A running bundle; safe from several threads. numpy arrays in and out."""

    @property
    def facts(self) -> Mapping[str, str]:
        """Provider, threads and kernels that really ran."""

    @property
    def pids(self) -> tuple[int, ...]:
        """The serving processes, whose memory counts together."""

    @property
    def together(self) -> int:
        """How many requests it may run through the model at once; 1: each by itself."""

    def ask(self, request: Mapping[str, Any], *, tensors: bool = False, company: int = 1) -> Answer:
        """One request through the whole bundle; with `tensors`, also what stood at the model's door (in and out).

        `company`: so many requests are asked at the same time, for the model to run at once where it can.
        """

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model alone, batch axis included."""

    def close(self) -> None: ...


class Builder(Protocol):
    """Program → one file, with what it promises read back from it."""

    name: str

    def build(self, program: Program, options: Mapping[str, Any], out: Path) -> Artifact: ...


class Runtime(Protocol):
    """One way to run a model. `options` is a frozen dataclass, part of the catalogue."""

    name: str
    options: type[Any]

    def candidates(self, spec: Spec, target: Target) -> tuple[Candidate, ...]:
        """What it could offer; raises SpecError where the target asks for what it can't."""

    def missing(self) -> tuple[str, ...]:
        """Distributions that this machine lacks for lowering."""

    def variations(self, options: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Ways to run one and the same bundle that tell where a mismatch comes from: in words → options.

        The first is the bundle as it is; empty where the runtime has only that.
        """

    def lower(self, job: Job, out: Path) -> Lowered:
        """Write the bundle's model files into `out`; the compiler adds pipeline, golden vectors and manifest."""

    def open(self, bundle: Path, environment: Environment) -> Session:
        """Start the command that bundle.json names and connect to it."""
