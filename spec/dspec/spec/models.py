"""The typed form of `deploy.yaml` (apiVersion dspec/v1alpha1): frozen, checked once, at the edge.

Field descriptions here become the JSON Schema, the editor's hover texts and `dspec schema`.
"""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

API_VERSION = "dspec/v1alpha1"
BATCH = "batch"  # the dim of this name counts independent items; servers may stack requests along it

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_.]*$", max_length=64)]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=63)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Callee = Annotated[str, StringConstraints(pattern=r"^[\w./-]+:[A-Za-z_]\w*$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
DType = Literal["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
Place = Literal["host", "graph", "contract"]
Gate = Literal["parity", "skew", "quality", "latency", "throughput", "cold_start", "memory", "smoke"]
GATES: tuple[Gate, ...] = (
    "parity", "skew", "quality", "latency", "throughput", "cold_start", "memory", "smoke",
)  # fmt: skip

QualityMetric = Literal["accuracy", "top_k", "recall_at_k", "mean_absolute_error", "correlation"]
RESERVED = ("evidence", "decision")  # folders and files of a publication beside its targets

_UNITS = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_SIZE = re.compile(r"^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$")


def parse_size(value: object) -> object:
    """Bytes from `2GiB`, `512MiB`, `20000`; raises ValueError for an unknown unit."""
    if not isinstance(value, str):
        return value
    found = _SIZE.match(value)
    if not found or found[2] not in _UNITS:
        raise ValueError(f"a size such as 512MiB or 2GiB (units {', '.join(u for u in _UNITS if u)})")
    size = float(found[1]) * _UNITS[found[2]]
    if size >= 2**63:
        raise ValueError("a size below 8 EiB")
    return int(size)


def parse_date(value: object) -> object:
    """A day from `2027-01-31`; raises ValueError otherwise."""
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise ValueError("a day such as 2027-01-31") from None


def _percentile(name: str) -> str:
    if not re.match(r"^p\d{1,2}(\.\d{1,2})?$", name) or not 0 < float(name[1:]) < 100:
        raise ValueError("a percentile such as p50, p95 or p99.9")
    return name


def _free(name: str) -> str:
    if name in RESERVED:
        raise ValueError(f"another name: a publication keeps its {name} under this one")
    return name


ByteSize = Annotated[
    int,
    BeforeValidator(parse_size, json_schema_input_type=int | str),
    Field(gt=0, description="bytes, or a text such as 512MiB or 2GiB"),
]
Day = Annotated[datetime.date, BeforeValidator(parse_date, json_schema_input_type=str)]
Percentile = Annotated[str, AfterValidator(_percentile)]
TargetId = Annotated[Slug, AfterValidator(_free)]


class Frozen(BaseModel):
    """Unknown keys are errors, values never change, texts are not numbers."""

    # Validators are built when first used: a command builds those of the documents it reads, and no others.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True, defer_build=True)


class Source(Frozen):
    """A file: of the spec's folder (`path`), or of an installed package (`package`, found without importing it)."""

    package: Annotated[str, StringConstraints(pattern=r"^[\w.-]+(==[\w.+!-]+)?$")] | None = Field(
        None, description="distribution, with its exact version: name==1.2.3"
    )
    path: Text = Field(description="relative to the spec's folder, or to the folder the package installs into")
    sha256: Sha256 | None = Field(None, description="written by `dspec pin`; demanded for a package's file")


class Weights(Source):
    """The state_dict: safetensors, a zip or legacy checkpoint that torch reads with weights_only, or .npz arrays."""

    prefix: str | None = Field(None, description="strip this from every key of the checkpoint")
    ignore: tuple[str, ...] = Field((), description="shell patterns of checkpoint keys to leave out")
    cast: bool = Field(False, description="allow stored dtypes to differ from the module's")


class Code(Frozen):
    """The user's sources that capture may load, and what ships when PyTorch ships."""

    sources: tuple[Text, ...] = Field(
        (), description="globs under the spec's folder; the factory's own file is implied"
    )
    requirements: tuple[Text, ...] = Field((), description="exact versions: name==1.2.3")


class Tensor(Frozen):
    """A tensor at the model's door."""

    dtype: DType
    shape: tuple[int | str, ...] = Field(description="sizes, declared dims, or in outputs expressions such as seq//2")
    range: tuple[float, float] | None = Field(None, description="least and greatest value that may occur, inclusive")


class Dim(Frozen):
    """A dynamic size."""

    min: int = Field(1, ge=0)
    max: int | None = Field(None, ge=1)
    multiple_of: int = Field(1, ge=1)


class Model(Frozen):
    """What to deploy."""

    factory: Callee = Field(description="file.py:callable or package.module:callable, returning an nn.Module")
    config: dict[str, Any] = Field(default_factory=dict, description="keyword arguments of the factory")
    code: Code = Field(default_factory=lambda: Code())
    files: tuple[Text, ...] = Field((), description="other files that code reads while building the module")
    weights: Weights | None = Field(None, description="absent: the module keeps the weights its factory gave it")
    inputs: dict[Name, Tensor] = Field(min_length=1, description="in the order clients see; bound to forward() by name")
    outputs: dict[Name, Tensor] = Field(
        default_factory=dict,
        description="absent: taken from what the module returns (dict keys, fields, output_0 …)",
    )
    dims: dict[Name, Dim] = Field(default_factory=dict)


class RequestField(Frozen):
    """One field of a request, as a caller sends it."""

    type: Literal["text", "image", "audio", "tensor", "number", "json"]
    max_bytes: ByteSize = Field(10_000_000, description="of the encoded value")
    dtype: DType | None = Field(None, description="tensor only")
    shape: tuple[int | str, ...] | None = Field(None, description="tensor only: of one item, without the batch axis")


class StepUse(Frozen):
    """One step of a pipeline. A shipped step's parameters stand beside `use`; they are checked against the catalogue."""

    id: Name
    use: str = Field(description="the step's name in the catalogue, or `python`")
    python: Callee | None = Field(None, description="file.py:callable, for a step of your own; its file ships")
    params: dict[str, Any] = Field(default_factory=dict)
    assets: dict[str, Source] = Field(default_factory=dict, description="the parameters that are files")
    inputs: tuple[str, ...] = Field(alias="in")
    outputs: tuple[str, ...] = Field(alias="out")
    place: Place = "host"


class Answer(Frozen):
    """One field of the response."""

    source: str = Field(alias="from", description="a model output, or a value that postprocess wrote")


class Closeness(Frozen):
    """How far one tensor may be from the training-time code's: |theirs − ours| ≤ atol + rtol·|theirs|."""

    atol: NotNegative = 0.0
    rtol: NotNegative = 0.0


class Training(Frozen):
    """Training-time code that the skew gate holds the shipped pipeline against.

    Either function returns the whole, or is a generator that yields (step id, value) after each step it stands for and
    returns what no yielded step covers: then the first step that differs is named.
    """

    preprocess: Callee | None = Field(
        None, description="f(request) → {model input: array of one item}, or a generator of (step id, value)"
    )
    postprocess: Callee | None = Field(
        None,
        description="f({model output: array of one item}) → {response field: value}, or a generator of (step id, value)",
    )
    atol: NotNegative = Field(1e-5, description="for floats; whole numbers and texts are exact")
    rtol: NotNegative = 1e-5
    tensors: dict[Name, Closeness] = Field(
        default_factory=dict, description="replaces atol and rtol for that model input, response field or step value"
    )


class Fixtures(Frozen):
    """Real requests in their raw form: JSON Lines, or .npz arrays whose first axis counts requests."""

    file: Text
    golden: int = Field(16, ge=0, le=1000, description="how many travel in the bundle")
    private: bool = Field(False, description="none of them travels")


class Resources(Frozen):
    cores: int = Field(1, ge=1, le=1024)
    memory: ByteSize | None = Field(None, description="limit of the serving process's peak resident memory")


class Slo(Frozen):
    """Limits; a gate without one is *not asked*."""

    latency_ms: dict[Percentile, Positive] = Field(default_factory=dict)
    min_throughput_rps: Positive | None = None
    cold_start_s: Positive | None = Field(None, description="from starting the process to its first answer")


class Load(Frozen):
    """Open-loop load: Poisson arrivals that do not wait for answers."""

    rate_rps: Positive | None = Field(None, description="absent: 100, or half of the throughput where that is less")
    duration_s: Positive = 10
    max_duration_s: Positive = 60


class TopK(Frozen):
    k: int = Field(ge=1)
    share: Share = Field(1.0, description="of the reference's top k that must be found again, ties allowed")


class Policy(Frozen):
    """How far one output may part from PyTorch: |got − reference| ≤ atol + rtol·|reference|, and the rest as named."""

    atol: NotNegative | None = None
    rtol: NotNegative | None = None
    min_cosine: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] | None = Field(
        None, description="least cosine between rows (last axis)"
    )
    min_topk_agreement: TopK | None = None
    valid: Name | None = Field(None, description="an input; only positions where it is not 0 count")
    selects: Name | None = Field(
        None,
        description="for an output of indices (topk, argmax, sort): the input or output whose last axis they point into; "
        "atol and rtol then hold for the values selected, so that the order of equal values means nothing",
    )


class Tolerance(Frozen):
    default: Policy | None = Field(
        None, description="absent: by dtype (float32: atol 1e-4, rtol 1e-3; integers: equal)"
    )
    outputs: dict[Name, Policy] = Field(default_factory=dict, description="replaces the default for that output")
    max_failing_fixtures: int = Field(0, ge=0)


class Quality(Frozen):
    """One metric over the fixtures whose `expected` labels it. Metric, `of` and `k` say what is measured; limits only judge."""

    metric: QualityMetric = Field(
        description="accuracy, top_k, recall_at_k, mean_absolute_error, or correlation (Pearson's)"
    )
    of: Name = Field(
        description="a response field, or else a model output; a fixture's `expected` is its label, or an object {field: label}"
    )
    k: int | None = Field(None, ge=1, description="top_k and recall_at_k only")
    min: Finite | None = Field(None, description="least value, where more is better")
    max: Finite | None = Field(None, description="greatest value, where less is better (mean_absolute_error)")
    max_loss: NotNegative | None = Field(
        None, description="how much worse than PyTorch on the same fixtures, in the metric's own unit"
    )


class Target(Frozen):
    """One bundle."""

    runtime: str
    hardware: str = Field("host", description="a profile such as linux-x86_64; `host` is whatever machine builds")
    resources: Resources = Field(default_factory=lambda: Resources())
    options: dict[str, Any] = Field(default_factory=dict)
    slo: Slo = Field(default_factory=lambda: Slo(), description="overrides the spec's slo, key by key")
    optional: bool = Field(False, description="unproved, it does not withhold the others")


class Fleet(Frozen):
    """What the decision weighs."""

    maturity: Literal["research", "moving", "stable"] | None = None
    peak_rps: Positive | None = None
    replica_cost_month: NotNegative | None = None
    second_stack_cost_month: NotNegative | None = None
    currency: str | None = None
    second_stack_owner: str | None = None


class Waiver(Frozen):
    """The only way past a gate: who vouches, why, and until when (the last day it holds)."""

    target: Slug
    gate: Gate
    verdict: Literal["fail", "inconclusive", "unmeasured"]
    reason: Text
    owner: Text
    expires: Day


class Spec(Frozen):
    """A whole `deploy.yaml`, every default filled in, every step wired."""

    api_version: Literal["dspec/v1alpha1"] = Field(alias="apiVersion")
    name: Slug
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+$")] = Field(
        "1", description="names what runs: a whole number, quoted"
    )
    owner: str = ""
    model: Model
    request: dict[Name, RequestField] = Field(
        default_factory=dict,
        description="one item, as a caller sends it; absent: the model's inputs as tensors",
    )
    preprocess: tuple[StepUse, ...] = ()
    postprocess: tuple[StepUse, ...] = ()
    response: dict[Name, Answer] = Field(default_factory=dict, description="absent: every model output")
    training: Training = Field(default_factory=lambda: Training())
    fixtures: tuple[Fixtures, ...] = Field(min_length=1)
    targets: dict[TargetId, Target] = Field(min_length=1)
    slo: Slo = Field(default_factory=lambda: Slo())
    load: Load = Field(default_factory=lambda: Load())
    tolerance: Tolerance = Field(default_factory=lambda: Tolerance())
    quality: tuple[Quality, ...] = Field((), description="how good the answers are, where fixtures carry `expected`")
    fleet: Fleet = Field(default_factory=lambda: Fleet())
    waivers: tuple[Waiver, ...] = ()
