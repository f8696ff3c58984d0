"""config.pbtxt: what spec and options make of it, as Triton's own definition reads it. No server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from dspec.spec.catalogue import Value
from dspec.spec.errors import ExportError
from dspec.spec.models import Dim, RequestField
from dspec.spec.records import Interface, Port
from dspec.targets.shipped.serve.datatypes import NAMES
from dspec.targets.shipped.step import Value as Known
from dspec.targets.triton.config import STAMP, STAMP_KEY, TYPES, Config, Edge, Part, text
from dspec.targets.triton.edges import misfits
from dspec.targets.triton.models import Served, configs, why_alone
from dspec.targets.triton.options import Options
from dspec.targets.triton.repository import check_ensemble, check_text

BATCH = {"batch": Dim(min=1, max=8)}


def read(config: Config) -> Any:
    return text_format.Parse(text(config), model_config_pb2.ModelConfig())


def served(
    inputs: Mapping[str, tuple[str, tuple[int | str, ...]]],
    outputs: Mapping[str, tuple[str, tuple[int | str, ...]]],
    dims: dict[str, Dim] | None = None,
    answers: dict[str, Value | None] | None = None,
    fields: dict[str, RequestField] | None = None,
    gpu: bool = False,
    **options: Any,
) -> Served:
    dims = BATCH if dims is None else dims
    ports = [
        {name: Port(dtype=dtype, shape=shape) for name, (dtype, shape) in side.items()} for side in (inputs, outputs)
    ]
    interface = Interface(inputs=ports[0], outputs=ports[1], dims=dims, batch="batch" if "batch" in dims else None)
    return Served(
        name="net", version="7", interface=interface, fields=fields or {"text": RequestField(type="text")},
        answers=answers or {"y": None}, options=Options(**options), cores=4, gpu=gpu,
    )  # fmt: skip


def one(shape: tuple[int | str, ...] = ("batch", 3), dtype: str = "float32", **more: Any) -> Served:
    return served({"x": (dtype, shape)}, {"y": ("float32", ("batch", 2))}, **more)


def model(found: Served) -> Any:
    return read(next(config for config in configs(found) if config.name == "net.model"))


# Rows 78, 79 and 81 of the faults: shape at the model's door, and dims, reshape and max_batch_size of the configuration.
@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        (("batch", 128), {"batch": Dim(max=8)}, ([128], None, 8)),
        (("batch", "seq"), {"batch": Dim(max=8), "seq": Dim(max=9)}, ([-1], None, 8)),
        (("batch", "2*seq", 3), {"batch": Dim(max=8), "seq": Dim(max=9)}, ([-1, 3], None, 8)),
        (("batch",), {"batch": Dim(max=8)}, ([1], [], 8)),
        (("batch", 4), {"batch": Dim()}, ([4], None, 16)),
        ((1, 26, 37), {}, ([1, 26, 37], None, 0)),
        (("n", 3), {"n": Dim(max=5)}, ([-1, 3], None, 0)),
        ((3, "batch"), {"batch": Dim(max=8)}, ([3, -1], None, 0)),
        (("batch", 3), {"batch": Dim(min=2, max=8)}, ([-1, 3], None, 0)),
        (("batch", 3), {"batch": Dim(max=8, multiple_of=2)}, ([-1, 3], None, 0)),
        ((), {}, ([1], [], 0)),
    ],
)  # fmt: skip
def test_dims_leave_the_batch_out(
    shape: tuple[int | str, ...], dims: dict[str, Dim], expected: tuple[list[int], list[int] | None, int]
) -> None:
    out = {"y": ("float32", ("batch", 2) if "batch" in dims else (2,))}
    found = model(served({"x": ("float32", shape)}, out, dims))
    tensor = found.input[0]
    reshape = list(tensor.reshape.shape) if tensor.HasField("reshape") else None
    assert (list(tensor.dims), reshape, found.max_batch_size) == expected
    assert found.HasField("dynamic_batching") == (expected[2] > 1)


# Row 81: the output is named that keeps items from being stacked.
@pytest.mark.parametrize(
    ("outputs", "what", "why"),
    [
        ({"y": ("float32", ("batch", 2))}, "", ""),
        ({"y": ("float32", ("batch", 2)), "logits": ("float32", ("time", "batch", 5))}, "output logits",
         "counts items along axis 1, not the first ([time, batch, 5])"),
        ({"total": ("float32", (5,))}, "output total", "has no axis that counts items (shape [5])"),
    ],
)  # fmt: skip
def test_why_items_run_one_by_one(outputs: dict[str, Any], what: str, why: str) -> None:
    dims = {**BATCH, "time": Dim(max=9)}
    found = served({"x": ("float32", ("batch", 3))}, outputs, dims)
    assert why_alone(found.interface) == (what, why)
    assert model(found).max_batch_size == (0 if what else 8)


def test_names_of_types() -> None:
    """Row 82: configuration, clients and numpy call them otherwise; bfloat16 is offered by none."""
    others = ("TYPE_INVALID", "TYPE_BF16", "TYPE_STRING")
    known = {value.name for value in model_config_pb2.DataType.DESCRIPTOR.values} - set(others)
    assert set(TYPES.values()) == known
    assert set(TYPES) == set(NAMES)
    assert [(TYPES[name], NAMES[name]) for name in ("int64", "float32", "bool")] == [
        ("TYPE_INT64", "INT64"), ("TYPE_FP32", "FP32"), ("TYPE_BOOL", "BOOL")
    ]  # fmt: skip


# Rows 84 and 85: the kind is said, and no list of devices.
@pytest.mark.parametrize(("gpu", "kind"), [(False, "KIND_CPU"), (True, "KIND_GPU")])
def test_the_kind_of_instances(gpu: bool, kind: str) -> None:
    out = {"y": ("float32", ("batch", 2))}
    found = model(served({"x": ("float32", ("batch", 3))}, out, gpu=gpu, shape="onnxruntime", instances=2))
    (group,) = found.instance_group
    assert (model_config_pb2.ModelInstanceGroup.Kind.Name(group.kind), group.count, list(group.gpus)) == (kind, 2, [])


# Row 86.
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (8, [], 0)),
        ({"max_batch": 4}, (4, [], 0)),
        ({"max_batch": 32}, (8, [], 0)),
        ({"preferred_batch": (8, 4), "max_delay_ms": 1.5}, (8, [4, 8], 1500)),
        ({"max_batch": 1}, (1, None, None)),
    ],
)
def test_batching(options: dict[str, Any], expected: tuple[int, list[int] | None, int | None]) -> None:
    first = read(configs(one(**options))[0])
    batching = first.dynamic_batching if first.HasField("dynamic_batching") else None
    sizes = list(batching.preferred_batch_size) if batching else None
    assert (first.max_batch_size, sizes, batching.max_queue_delay_microseconds if batching else None) == expected
    if batching:  # an item waits in one place
        assert model(one(**options)).dynamic_batching.max_queue_delay_microseconds == 0


def test_fields_and_answers() -> None:
    fields = {
        "text": RequestField(type="text"), "photo": RequestField(type="image"), "more": RequestField(type="json"),
        "scale": RequestField(type="number"), "grid": RequestField(type="tensor", dtype="int32", shape=(2, "n")),
    }  # fmt: skip
    answers: dict[str, Value | None] = {
        "vector": Known("tensor", "float32", (384,)), "index": Known("tensor", "int64", ()), "boxes": Known("tensor", "float32", (None, 4)),
        "label": Known("text"), "table": Known("json"), "own": None, "rank": Known("tensor", "float32", None),
    }  # fmt: skip
    first = read(configs(one(fields=fields, answers=answers))[0])
    types = model_config_pb2.DataType.Name
    assert {tensor.name: (types(tensor.data_type), list(tensor.dims)) for tensor in first.input} == {
        "text": ("TYPE_STRING", [1]), "photo": ("TYPE_STRING", [1]), "more": ("TYPE_STRING", [1]),
        "scale": ("TYPE_FP64", [1]), "grid": ("TYPE_INT32", [2, -1]),
    }  # fmt: skip
    assert {tensor.name: (types(tensor.data_type), list(tensor.dims)) for tensor in first.output} == {
        "vector": ("TYPE_FP32", [384]), "index": ("TYPE_INT64", [1]), "boxes": ("TYPE_FP32", [-1, 4]),
        **dict.fromkeys(("label", "table", "own", "rank"), ("TYPE_STRING", [1])),
    }  # fmt: skip
    assert [tensor.name for tensor in first.output if tensor.HasField("reshape")] == [
        "index",
        "label",
        "table",
        "own",
        "rank",
    ]


def test_version_stamp_files_and_the_native_session() -> None:
    found = served({"x": ("float32", ("batch", 3))}, {"y": ("float32", ("batch", 2))}, shape="onnxruntime",
                   optimization="basic", instances=2, spinning=True)  # fmt: skip
    native = model(found)
    assert (native.name, native.backend, native.default_model_filename) == ("net.model", "onnxruntime", "model.onnx")
    assert list(native.version_policy.specific.versions) == [7]
    given = {key: value.string_value for key, value in native.parameters.items()}
    assert given[STAMP_KEY] == STAMP == "0" * 12
    assert given["intra_op_thread_count"] == "2"
    assert given["session.intra_op.allow_spinning"] == "1"
    assert native.optimization.graph.level == -1
    assert text(configs(found)[0]).count(STAMP) == 1


def test_warm_up_of_sizes_and_values_that_may_occur() -> None:
    dims = {"batch": Dim(max=4), "seq": Dim(min=2, max=12, multiple_of=4)}
    ids, mask = Port(dtype="int64", shape=("batch", "seq"), range=(1, 9)), Port(dtype="int64", shape=("batch", "seq"))
    base = one()
    interface = Interface(inputs={"ids": ids, "mask": mask}, outputs=base.interface.outputs, dims=dims, batch="batch")
    found = model(Served(name="net", version="7", interface=interface, fields=base.fields, answers=base.answers,
                         options=base.options, cores=2))  # fmt: skip
    assert [(warmup.name, warmup.batch_size) for warmup in found.model_warmup] == [("batch 1", 1), ("batch 4", 4)]
    given = found.model_warmup[1].inputs
    assert (given["ids"].input_data_file, list(given["ids"].dims)) == ("ids.4", [12])
    assert (given["mask"].zero_data, list(given["mask"].dims)) == (True, [12])


@pytest.mark.parametrize("pipeline", ["calls", "ensemble"])
@pytest.mark.parametrize("kind", ["texts", "mixed", "single"])
def test_every_text_is_read_as_meant(toy: Callable[..., Served], kind: str, pipeline: str) -> None:
    found = configs(toy(kind, pipeline=pipeline))
    for config in found:
        check_text(config)
        assert text(config) == text(config)
    check_ensemble(found)
    assert [config.name for config in found][:1] == ["toy"]


def test_a_text_that_says_something_else_is_refused() -> None:
    with pytest.raises(ExportError, match=r"E1006: net/config.pbtxt is no configuration"):
        check_text(Config(name="net", version=1, backend="python", max_batch=1, inputs=(Edge(name="x", type="FP32", dims=(1,)),), outputs=()))  # fmt: skip


def edge(name: str, type: str = "TYPE_INT64", dims: tuple[int, ...] = (-1,)) -> Edge:
    return Edge(name=name, type=type, dims=dims)


def ensemble(first: Config, second: Config, **changed: Any) -> tuple[Config, dict[str, Config]]:
    given: dict[str, Any] = {
        "inputs": (edge("text", "TYPE_STRING", (1,)),),
        "outputs": (edge("y", "TYPE_FP32", (4,)),),
        "max_batch": 8,
        "parts": (
            Part(model="first", inputs={"text": "text"}, outputs={"ids": "door.ids"}),
            Part(model="second", inputs={"ids": "door.ids"}, outputs={"y": "y"}),
        ),
    } | changed
    return Config(name="whole", version=1, backend="", **given), {"first": first, "second": second}


def part(name: str, takes: Edge, gives: Edge, max_batch: int = 8) -> Config:
    return Config(name=name, version=1, backend="python", max_batch=max_batch, inputs=(takes,), outputs=(gives,))


FIRST = part("first", edge("text", "TYPE_STRING", (1,)), edge("ids"))
SECOND = part("second", edge("ids"), edge("y", "TYPE_FP32", (4,)))


def test_an_ensemble_that_fits() -> None:
    assert misfits(*ensemble(FIRST, SECOND)) == ()


# Rows 87 to 90: what does not fit is told before any server starts, both ends named.
@pytest.mark.parametrize(
    ("found", "says"),
    [
        (ensemble(FIRST, SECOND, inputs=(edge("text", "TYPE_STRING", (1,)), edge("unused"))),
         "whole's input unused is read by no step"),
        (ensemble(FIRST, SECOND, parts=(
            Part(model="first", inputs={"text": "text"}, outputs={"ids": "y"}),
            Part(model="second", inputs={"ids": "y"}, outputs={"y": "y"}))),
         "the tensor y is written twice: first's ids (TYPE_INT64 [?]) and second's y (TYPE_FP32 [4])"),
        (ensemble(part("first", edge("text", "TYPE_STRING", (1,)), edge("ids", "TYPE_INT32")), SECOND),
         "first's ids (TYPE_INT32 [?]) feeds second's ids (TYPE_INT64 [?]): the types differ"),
        (ensemble(part("first", edge("text", "TYPE_STRING", (1,)), edge("ids", dims=(3, 4))), SECOND),
         "first's ids (TYPE_INT64 [3, 4]) feeds second's ids (TYPE_INT64 [?]): the shapes differ"),
        (ensemble(FIRST, part("second", edge("ids"), edge("y", "TYPE_FP32", (5,)))),
         "second's y (TYPE_FP32 [5]) feeds whole's y (TYPE_FP32 [4]): the shapes differ"),
        (ensemble(FIRST, part("second", edge("ids"), edge("y", "TYPE_FP32", (4,)), max_batch=0)),
         "whole has max_batch_size 8 and its step second 0: with and without a batch do not mix"),
        (ensemble(FIRST, part("second", edge("ids"), edge("y", "TYPE_FP32", (4,)), max_batch=4)),
         "whole lets 8 items in and its step second takes 4"),
        (ensemble(FIRST, SECOND, parts=(
            Part(model="first", inputs={"text": "text"}, outputs={"ids": "door.ids"}),
            Part(model="second", inputs={"ids": "elsewhere"}, outputs={"y": "y"}))),
         "nothing writes the tensor elsewhere, which second's ids (TYPE_INT64 [?]) reads"),
        (ensemble(FIRST, SECOND, parts=(Part(model="third", inputs={}, outputs={}),)),
         "whole has a step third, which is no model of the repository"),
        (ensemble(FIRST, SECOND, parts=(
            Part(model="first", inputs={"text": "text"}, outputs={"other": "door.ids"}),
            Part(model="second", inputs={}, outputs={"y": "y"}))),
         "second's input ids is mapped to nothing"),
    ],
)  # fmt: skip
def test_an_ensemble_that_does_not(found: tuple[Config, dict[str, Config]], says: str) -> None:
    assert says in misfits(*found)
    with pytest.raises(ExportError, match="E1005"):
        check_ensemble((found[0], *found[1].values()))
