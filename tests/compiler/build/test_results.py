"""What a build tells of targets that could not be lowered: which others could."""

from __future__ import annotations

from dspec.compiler.results import TargetResult, telling_what_stays_open
from dspec.spec.errors import DspecError, ExportError, MachineError
from dspec.spec.models import Fixtures, Model, Spec, Target, Tensor

RUNTIMES = {"phone": "executorch", "fleet": "onnxruntime", "watch": "executorch", "service": "fastapi"}


def _told(**errors: DspecError) -> dict[str, tuple[str, ...]]:
    """The notes of each target's error, of a build with those errors."""
    model = Model(factory="model.py:build", inputs={"x": Tensor(dtype="float32", shape=(2,))})
    spec = Spec(
        api_version="dspec/v1alpha1",
        name="net",
        model=model,
        fixtures=(Fixtures(file="x.jsonl"),),
        targets={name: Target(runtime=runtime) for name, runtime in RUNTIMES.items()},
    )
    results = tuple(TargetResult(target=name, optional=False, error=errors.get(name)) for name in RUNTIMES)
    found = telling_what_stays_open(results, spec)
    return {one.target: one.error.diagnostics[0].notes for one in found if one.error}


def test_a_blocked_target_names_those_that_are_not() -> None:
    blocked, lacking = ExportError.of("E0531", "no kernel", notes=("as before",)), MachineError.of("E0605", "lacks")
    open_ones = "still open: fleet (onnxruntime), service (fastapi)"
    assert _told(phone=blocked, watch=blocked, service=lacking) == {
        "phone": ("as before", f"blocked target: phone (executorch); {open_ones}"),
        "watch": ("as before", f"blocked target: watch (executorch); {open_ones}"),
        "service": (),
    }


def test_none_stays_open() -> None:
    told = _told(**dict.fromkeys(RUNTIMES, ExportError.of("E0501", "no")))
    assert told["fleet"] == ("blocked target: fleet (onnxruntime); still open: none of this spec",)
