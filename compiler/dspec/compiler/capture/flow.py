"""Capture as its own table of contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from dspec.compiler.capture import CaptureRequest, CaptureResult, Report
from dspec.compiler.capture.binding import bind_inputs
from dspec.compiler.capture.carried import write_module
from dspec.compiler.capture.closure import check_declared, closure
from dspec.compiler.capture.contract import check_dims
from dspec.compiler.capture.diagnose import Trials
from dspec.compiler.capture.eager import Eager
from dspec.compiler.capture.export import export, unused_inputs
from dspec.compiler.capture.fixtures import Fixtures, open_pipeline
from dspec.compiler.capture.flat import Flat
from dspec.compiler.capture.loading import load_weights
from dspec.compiler.capture.module import build_module, check_filled, quiet_machine, set_eval
from dspec.compiler.capture.outputs import Outputs
from dspec.compiler.capture.probe import Probe, differs, probe
from dspec.compiler.capture.program import write_program
from dspec.compiler.capture.reference import Reference, read_pool
from dspec.compiler.capture.shapes import Arrays, at_sizes, example_sizes, is_dynamic, used_dims
from dspec.compiler.capture.usercode import UserCode
from dspec.spec.errors import Diagnostic
from dspec.spec.models import BATCH, Spec
from dspec.spec.records import Interface, Port

Warnings = tuple[Diagnostic, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """What the module is probed and exported with: real requests at sizes inside the declared ranges."""

    sizes: Mapping[str, int]
    arrays: Arrays
    pool: Sequence[Arrays]


def capture(request: CaptureRequest, report: Report) -> CaptureResult:
    """See `dspec.compiler.capture.capture`."""
    code = UserCode(request.folder, request.spec_file)
    with code.importable(), quiet_machine():
        report("building the module")
        eager, built = _module(request, code, report)
        check_declared(request.spec, code)
        fixtures = Fixtures(request.spec, request.folder, open_pipeline(request.pipeline))
        example = _example(request.spec, eager.module, fixtures)
        seen = probe(_trials(request.spec, eager, example), example.arrays, request.spec, example.sizes)
        report("exporting with torch.export")
        flat = Flat(eager.module, eager.call, seen.answers)
        flat.copied = seen.changed
        interface, unused = _program(request, flat, eager, seen, example)
        report("running the reference")
        reference = Reference(
            eager=eager,
            answers=seen.answers,
            state=seen.state,
            fresh=seen.fresh,
            interface=interface,
            fixtures=fixtures,
            pool=example.pool,
            example=example.sizes,
        )
        odd, read = reference.write(request.reference_out, report)
        loaded = closure(request.spec, code)
        if request.module_out:
            write_module(request.spec, code, flat, loaded, request.module_out)
    return CaptureResult(
        interface=interface,
        warnings=(*built, *unused, *odd),
        read=tuple(sorted({*loaded.read, *read})),
        distributions=loaded.distributions,
    )


def _module(request: CaptureRequest, code: UserCode, report: Report) -> tuple[Eager, Warnings]:
    spec = request.spec
    module = build_module(spec, code)
    warnings = set_eval(module)
    if spec.model.weights and request.weights:
        report(f"loading {request.weights.name}")
        warnings += load_weights(module, spec.model.weights, request.weights)
    check_filled(module, request.spec_file)
    module.requires_grad_(False)
    call = bind_inputs(module, tuple(spec.model.inputs), request.spec_file)
    for name, value in call.constants.items():
        if value is not None and not isinstance(value, bool):
            report(f"forward's {name} is no input: it stays {value!r}")
    return Eager(module=module, call=call, inputs=spec.model.inputs, code=code), warnings


def _example(spec: Spec, module: nn.Module, fixtures: Fixtures) -> Example:
    pool = read_pool(fixtures)
    tensors = [*spec.model.inputs.values(), *spec.model.outputs.values()]
    taken = {size for tensor in tensors for size in tensor.shape if isinstance(size, int)}
    taken |= {size for value in (*module.parameters(), *module.buffers()) for size in value.shape}
    sizes = example_sizes(used_dims(spec.model.inputs, spec.model.dims), taken)
    batch = BATCH if BATCH in spec.model.dims else None
    return Example(sizes=sizes, arrays=at_sizes(pool, spec.model.inputs, sizes, batch), pool=pool)


def _trials(spec: Spec, eager: Eager, example: Example) -> Trials:
    dims = {name: dim for name, dim in used_dims(spec.model.inputs, spec.model.dims).items() if is_dynamic(dim)}
    return Trials(eager=eager, pool=example.pool, dims=dims, batch=BATCH if BATCH in spec.model.dims else None)


def _program(
    request: CaptureRequest, flat: Flat, eager: Eager, seen: Probe, example: Example
) -> tuple[Interface, Warnings]:
    """Export, hold what torch decided against the spec, and save."""
    model, code = request.spec.model, eager.code
    exported = export(flat, eager.tensors(example.arrays), model.inputs, model.dims, code)
    if not seen.repeats:
        raise differs()
    dims = used_dims(model.inputs, model.dims)
    symbols = check_dims(exported, dims, example.sizes, request.spec_file)
    outputs = Outputs(exported, symbols, model.dims, code.places)
    interface = Interface(
        inputs={n: Port(dtype=t.dtype, shape=t.shape, range=t.range) for n, t in model.inputs.items()},
        outputs=outputs.ports(seen.answers.names, model.outputs, request.spec_file),
        dims=model.dims,
        batch=BATCH if BATCH in model.dims else None,
    )
    names = {**symbols.names, **outputs.unbacked}
    write_program(exported.program, interface, names, code.places, request.program_out)
    return interface, unused_inputs(exported.program, tuple(model.inputs), request.spec_file)
