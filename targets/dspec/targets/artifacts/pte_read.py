"""What a `.pte` file says of itself: everything here is read back from the written bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executorch.exir import schema
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from executorch.exir._serialize._program import _get_extended_header
from executorch.exir.scalar_type import ScalarType

METHOD = "forward"
_DTYPES = {
    ScalarType.BYTE: "uint8",
    ScalarType.CHAR: "int8",
    ScalarType.SHORT: "int16",
    ScalarType.INT: "int32",
    ScalarType.LONG: "int64",
    ScalarType.HALF: "float16",
    ScalarType.FLOAT: "float32",
    ScalarType.DOUBLE: "float64",
    ScalarType.BOOL: "bool",
    ScalarType.BFLOAT16: "bfloat16",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """A tensor of the plan: its dtype, and the largest sizes that it has room for."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """An instruction: `operator` as `aten::add.out`, or `delegate` (its number) for a delegate's; `result` where it is a tensor."""

    operator: str
    delegate: int | None
    result: Planned | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Delegated:
    backend: str
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """`arenas`: bytes planned per memory; `calls`: by the number of the instruction."""

    inputs: tuple[Planned | None, ...]
    outputs: tuple[Planned | None, ...]
    operators: tuple[str, ...]
    delegates: tuple[Delegated, ...]
    calls: dict[int, Call]
    arenas: tuple[int, ...]
    sections: dict[str, int]


def read(path: Path) -> File:
    """The plan of the method `forward`."""
    data = path.read_bytes()
    header = _get_extended_header(data)
    size = header.program_size if header is not None and header.is_valid() else len(data)
    program = _flatbuffer_to_program(data[:size])
    plan = next(found for found in program.execution_plan if found.name == METHOD)
    values = [_planned(found.val) for found in plan.values]
    operators = tuple(f"{found.name}.{found.overload}" if found.overload else found.name for found in plan.operators)
    return File(
        inputs=tuple(values[index] for index in plan.inputs),
        outputs=tuple(values[index] for index in plan.outputs),
        operators=operators,
        delegates=tuple(_delegated(found, program) for found in plan.delegates),
        calls=dict(_calls(plan, operators, values)),
        arenas=tuple(plan.non_const_buffer_sizes[1:]),
        sections=_sections(program, size, len(data)),
    )


def _planned(value: Any) -> Planned | None:
    if not isinstance(value, schema.Tensor):
        return None
    return Planned(dtype=_DTYPES.get(value.scalar_type, value.scalar_type.name.lower()), shape=tuple(value.sizes))


def _delegated(found: schema.BackendDelegate, program: schema.Program) -> Delegated:
    index = found.processed.index
    inline = found.processed.location == schema.DataLocation.INLINE
    size = len(program.backend_delegate_data[index].data) if inline else program.segments[index].size
    return Delegated(backend=found.id, bytes=size)


def _calls(
    plan: schema.ExecutionPlan, operators: tuple[str, ...], values: list[Planned | None]
) -> Iterator[tuple[int, Call]]:
    for number, instruction in enumerate(plan.chains[0].instructions):
        match instruction.instr_args:
            case schema.KernelCall(op_index=index, args=arguments):
                yield number, Call(operator=operators[index], delegate=None, result=_last(arguments, values))
            case schema.DelegateCall(delegate_index=index, args=arguments):
                yield number, Call(operator="", delegate=index, result=_last(arguments, values))


def _last(arguments: list[int], values: list[Planned | None]) -> Planned | None:
    """Out-variants take what they write to as their last argument."""
    return values[arguments[-1]] if arguments else None


def _sections(program: schema.Program, size: int, whole: int) -> dict[str, int]:
    """Bytes by section: they sum to the file's size, `padding` being what aligns them."""
    used = {found.processed.index for plan in program.execution_plan for found in plan.delegates
            if found.processed.location == schema.DataLocation.SEGMENT}  # fmt: skip
    named = {found.segment_index for found in program.named_data or ()}
    constant = program.constant_segment.segment_index if program.constant_segment.offsets else None
    found = {"program": size, "constants": 0, "delegates": 0, "delegate_weights": 0, "other": 0}
    for index, segment in enumerate(program.segments):
        kind = "delegates" if index in used else "delegate_weights" if index in named else "other"
        found["constants" if index == constant else kind] += segment.size
    return found | {"padding": whole - sum(found.values())}
