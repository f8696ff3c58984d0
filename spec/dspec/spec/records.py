"""The records that dspec writes and that the dashboard, `verify` and third parties read.

manifest     bundle.json: what a bundle is
measurement  numbers about one bundle digest on one machine, no limits in them
evidence     evidence/<target>.json: measurements and the verdicts that today's spec draws from them
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from dspec.spec.models import Dim, Frozen, Gate, QualityMetric, Spec

MANIFEST_SCHEMA = "dspec/bundle/v1alpha1"
EVIDENCE_SCHEMA = "dspec/evidence/v1alpha1"
MODEL_STAGE = "model"  # among the stages that a serving process times; the others are the steps around it
NOT_IN_ARTIFACT = ("golden/",)  # depends on the CPU class of the reference, so outside the artifact digest

STAMP_DIGITS = 12
UNSTAMPED = "0" * STAMP_DIGITS

Verdict = Literal["pass", "fail", "inconclusive", "unmeasured", "not asked"]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def canonical(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, UTF-8; what every digest is taken of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    """sha256 of the canonical JSON text."""
    return hashlib.sha256(canonical(value)).hexdigest()


class FileEntry(Frozen):
    """`path` with forward slashes, relative to the bundle.

    `stamp`: the file holds, once, the first twelve digits of the bundle's digest; size and sha256 are those of the file with
    twelve zeros in their place.
    """

    path: str
    size: int = Field(ge=0)
    sha256: Digest
    executable: bool = False
    stamp: bool = False

    @model_serializer(mode="wrap")
    def _without_stamp(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Of a file without one nothing is said."""
        body: dict[str, Any] = handler(self)
        return body if self.stamp else {key: value for key, value in body.items() if key != "stamp"}


class TensorDigest(Frozen):
    """A weight: sha256 of its little-endian bytes; norm (L2) and mean in six significant digits."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: Digest
    norm: float | None
    mean: float | None


class Port(Frozen):
    """A tensor at the model's door: sizes are numbers or dims of `Interface.dims`, or an expression over them."""

    dtype: str
    shape: tuple[int | str, ...]
    range: tuple[float, float] | None = None


class Interface(Frozen):
    """Names, dtypes and shapes, in the order positional callers use. `batch` is the dim that counts items, if any."""

    inputs: dict[str, Port]
    outputs: dict[str, Port]
    dims: dict[str, Dim] = Field(default_factory=dict)
    batch: str | None = None


class Metric(Frozen):
    """A number that diff and dashboard can show without knowing the runtime."""

    name: str
    value: float
    unit: str
    better: Literal["lower", "higher", "neither"] = "neither"


class Digests(Frozen):
    """`artifact`: model, pipeline, shipped code, requirements. `bundle`: everything, golden answers included."""

    artifact: Digest
    bundle: Digest


class Reference(Frozen):
    """Where the golden answers come from: torch's version, the instruction set and the threads it was held to."""

    torch: str
    cpu: str
    threads: int
    fixtures: int
    source: Digest = Field(description="digest of requests and answers of the whole reference")


class Manifest(Frozen):
    """`bundle.json`."""

    schema_version: Literal["dspec/bundle/v1alpha1"] = Field("dspec/bundle/v1alpha1", alias="schema")
    name: str
    version: str
    target: str
    owner: str
    hardware: str
    runtime: str
    engine: str
    variant: str
    command: tuple[str, ...] = Field(description="serves the bundle, from inside its folder")
    cores: int
    interface: Interface
    model: dict[str, Any] = Field(description="path, format and what was read back from the artifact")
    options: dict[str, Any]
    toolchain: dict[str, str] = Field(description="versions that decide the artifact's bytes")
    metrics: tuple[Metric, ...] = ()
    weights: tuple[TensorDigest, ...] = ()
    reference: Reference
    files: tuple[FileEntry, ...]
    contract: dict[str, Any] = Field(
        default_factory=dict,
        description="what the caller does: its steps before and after, the raw request, the whole response",
    )
    digests: Digests | None = None

    @model_serializer(mode="wrap")
    def _without_empty_contract(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Where the bundle does every step, nothing is said of a contract."""
        body: dict[str, Any] = handler(self)
        return body if self.contract else {key: value for key, value in body.items() if key != "contract"}

    @property
    def stamp(self) -> str:
        """What stands for the bundle where there is little room."""
        return self.digests.bundle[:STAMP_DIGITS] if self.digests else UNSTAMPED

    def with_digests(self) -> Manifest:
        """The same manifest with both digests computed from the rest of it."""
        body = self.model_dump(mode="json", by_alias=True, exclude={"digests"})
        kept = [file for file in body["files"] if not file["path"].startswith(NOT_IN_ARTIFACT)]
        artifact = {key: value for key, value in body.items() if key != "reference"} | {"files": kept}
        return self.model_copy(update={"digests": Digests(artifact=digest(artifact), bundle=digest(body))})


class Machine(Frozen):
    """Where numbers were taken: `flags` are the CPU's features, `cores` those granted to the measured process."""

    os: str
    arch: str
    cpu: str
    flags: tuple[str, ...]
    cores: int
    name: str = ""


class Point(Frozen):
    """One element of an error frontier: no other element is both nearer to zero and further off.

    `ref` and `diff` are |reference| and |got − reference|; `index` is the element's position, `case` where it was seen.
    Any (atol, rtol) is broken by some element exactly when it is broken by a point of the frontier.
    """

    ref: float
    diff: float
    index: tuple[int, ...]
    case: str = ""


class OutputError(Frozen):
    """One output in one case: how far it was from the reference, before any policy.

    `cosine` is the least cosine over rows, None where undefined; `topk` maps k to the share of the reference's top k
    found again. `broken` says why no numbers exist: missing, another shape or dtype, NaN where the reference has none.
    """

    frontier: tuple[Point, ...] = ()
    cosine: float | None = None
    topk: dict[str, float] = Field(default_factory=dict)
    broken: str = ""


class Case(Frozen):
    """One comparison: a fixture at its own size, or a shape point; `call` 2 asks the same again, 3 among others at once."""

    id: str
    kind: Literal["fixture", "shape"]
    call: int = 1
    outputs: dict[str, OutputError]
    door: dict[str, OutputError] = Field(
        default_factory=dict,
        description="what the bundle's pipeline put at the model's door, against the reference's",
    )
    response: tuple[str, ...] = Field(
        (),
        description="where the response is not what the bundle's own steps make of the outputs, or of an equal request",
    )
    valid: dict[str, OutputError] = Field(
        default_factory=dict,
        description="the same over valid positions only, for outputs whose policy names a mask",
    )


class Spread(Frozen):
    """How one reference output varies over the fixtures, and how exact float32 is.

    `span`: greatest (max − min) over elements; `cosine`: least cosine between two fixtures' answers;
    `magnitude`: greatest |value|; `noise`: greatest |float32 − float64|, None where float64 could not run.
    """

    span: float
    cosine: float | None
    magnitude: float
    noise: float | None
    noise_reason: str = ""


class Parity(Frozen):
    cases: tuple[Case, ...]
    spread: dict[str, Spread]
    on: str = Field(description="the kernels that ran, e.g. CPUExecutionProvider")


class Latency(Frozen):
    """Open loop. `sorted_ms` are the latencies counted from the scheduled arrival, warm-up excluded."""

    rate_rps: float
    duration_s: float
    warmup: int
    warmup_ms: float
    sorted_ms: tuple[float, ...]
    stages_ms: dict[str, float] = Field(description="median milliseconds per stage, measured in the serving process")
    in_process_ms: float = Field(description="median of the serving process's own clock")
    errors: int = 0

    @property
    def outside_model(self) -> float | None:
        """The share of the serving process's time that is not the model's; None where no stage was timed."""
        total = sum(self.stages_ms.values())
        return 1 - self.stages_ms.get(MODEL_STAGE, 0.0) / total if total else None


class Throughput(Frozen):
    """Closed loop at saturation: requests per second in each of several windows."""

    windows_rps: tuple[float, ...]
    in_flight: int


class Parting(Frozen):
    """A value of one step that the training-time code gave too, and how far the shipped step's is from it.

    `exact`: whole numbers or texts, which no tolerance covers unless it names them.
    """

    step: str
    value: str
    exact: bool = False
    error: OutputError


class SkewCase(Frozen):
    """One fixture: `outputs` are model inputs (or values of the response), `steps` those yielded, in pipeline order.

    `exact` names the outputs that are whole numbers or texts on both sides.
    """

    id: str
    outputs: dict[str, OutputError]
    exact: tuple[str, ...] = ()
    steps: tuple[Parting, ...] = ()


class Cause(Frozen):
    """One thing changed in the shipped pipeline, in words, and what is left of the error then, over the fixtures tried."""

    side: Literal["preprocess", "postprocess"]
    what: str
    step: str = ""
    tried: tuple[str, ...]
    outputs: dict[str, OutputError]


class Skew(Frozen):
    """The shipped pipeline against the training-time code, before the model and after it, and against itself padded."""

    cases: tuple[SkewCase, ...] = Field((), description="tensors at the model's door, per fixture")
    answers: tuple[Case, ...] = Field(
        (),
        description="what that does to the model's outputs: PyTorch on the shipped tensors against the training-time ones",
    )
    responses: tuple[SkewCase, ...] = Field((), description="the response, from PyTorch's own outputs, per fixture")
    causes: tuple[Cause, ...] = ()
    padding: tuple[Case, ...] = Field((), description="PyTorch's outputs for a text padded against the same text alone")
    mask: str = Field("", description="the input that tells padding from text")


class QualityFigure(Frozen):
    """One metric of `quality:` over the labelled fixtures: of this bundle, and of PyTorch through the same pipeline.

    `low` and `high` bound what further fixtures of the same kind would show, each one-sided at 95 %; None: unbounded,
    there are too few. `broken` says why there is no value, `vacuous` why the value shows nothing about the model.
    """

    metric: QualityMetric
    of: str
    k: int | None = None
    n: int = Field(description="fixtures that count")
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reference: float | None = Field(None, description="the same metric of PyTorch's answers to the same fixtures")
    changed: int = Field(0, description="fixtures that count otherwise than PyTorch's answers do")
    lost: tuple[str, ...] = Field((), description="fixtures that are worse than with PyTorch, the worst first")
    missed: tuple[str, ...] = Field((), description="fixtures furthest from their label, the worst first")
    repeated: int = Field(
        0, description="further fixtures that enter the model as one that counts does, with its label"
    )
    vacuous: str = ""
    broken: str = ""


class QualityFound(Frozen):
    """`labelled` of `fixtures` carry `expected`."""

    figures: tuple[QualityFigure, ...]
    fixtures: int
    labelled: int


class Measurement(Frozen):
    """What one machine found out about one artifact. A field is None with its reason in `missing`.

    `artifact` is the artifact digest and `reference` the digest of the answers it was held against: a tolerance or a
    load may change afterwards without making these numbers another bundle's.
    """

    artifact: Digest
    reference: Digest
    target: str
    candidate: str
    machine: Machine
    versions: dict[str, str]
    facts: dict[str, str] = Field(default_factory=dict, description="provider, threads, kernels that really ran")
    source: Literal["reference", "golden"] = Field(
        description="held against the whole reference, or the golden vectors"
    )
    parity: Parity | None = None
    variations: dict[str, tuple[Case, ...]] = Field(
        default_factory=dict,
        description="some cases that failed, again with other options of the same bundle: the first as it ships",
    )
    skew: Skew | None = None
    quality: QualityFound | None = None
    latency: Latency | None = None
    throughput: Throughput | None = None
    cold_start_s: tuple[float, ...] = ()
    peak_memory_bytes: int | None = None
    soak_bytes: tuple[int, ...] = Field((), description="resident bytes after each round over many input sizes")
    smoke: str | None = Field(
        None, description="what the self-test in the clean environment answered: `ok` or its error"
    )
    missing: dict[Gate, str] = Field(default_factory=dict)


class GateVerdict(Frozen):
    """One gate of one target. `measured` and `limit` are words with units; `detail` says what to do or where to look."""

    gate: Gate
    verdict: Verdict
    measured: str = ""
    limit: str = ""
    detail: tuple[str, ...] = ()
    waived_by: str = ""


class Evidence(Frozen):
    """`evidence/<target>.json`."""

    schema_version: Literal["dspec/evidence/v1alpha1"] = Field("dspec/evidence/v1alpha1", alias="schema")
    target: str
    digest: Digest
    spec: Spec
    commit: str = Field("", description="of the repository that holds the spec, when its tree was clean")
    measurements: tuple[Measurement, ...]
    verdicts: tuple[GateVerdict, ...]
