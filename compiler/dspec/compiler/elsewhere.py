"""`dspec verify BUNDLE --server URL`: does the server that runs there hold this bundle, and answer as PyTorch did?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dspec.compiler.bundle import check_digests, read_policy
from dspec.compiler.verify import Verified, check_any
from dspec.spec.errors import GateError, MachineError, SpecError
from dspec.targets import runtime

if TYPE_CHECKING:
    from dspec.targets.shipped.golden import Golden
    from dspec.targets.shipped.pipeline import Pipeline

CALLS = (1, 2)  # a second call must agree as well as the first


class Served(Protocol):
    """A bundle on a server that runs already."""

    def run(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model alone, batch axis included."""

    def ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """One request in Python form → the response."""

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """One answer: a line for people; where its outputs are `outside` the policy, and its response `broken`, in words."""

    fixture: str
    line: str
    outside: tuple[str, ...]
    broken: tuple[str, ...]


def verify_at(bundle: Path, url: str) -> Verified:
    """Digests, then the golden vectors on the server at `url`. Errors as `replay_at`, and GateError E0712."""
    manifest = check_digests(bundle)
    lines = replay_at(bundle, manifest.runtime, url)
    return Verified(manifest=manifest, vectors=len(lines) // len(CALLS), lines=lines)


def replay_at(bundle: Path, runtime_name: str, url: str) -> tuple[str, ...]:
    """Ask the server every golden vector, the model's tensors and the whole request; a line for each call, how far off it was.

    The outputs are held against the golden ones by the bundle's policy; each response against what the bundle's own steps,
    run here, make of the outputs that the server gave.

    Raises:
        GateError: E1019: an answer apart; E1014, E1016: the server holds something else. SpecError E1018: a runtime without
            a server of its own. NotProvedError E0716: nothing to ask. MachineError E1015: nobody answers.
    """
    connect = getattr(runtime(runtime_name), "connect", None)
    if connect is None:
        raise SpecError.of("E1018", f"{bundle} is a bundle of {runtime_name}, and --server names a server of Triton",
                           hint="`dspec verify BUNDLE` replays its golden vectors on this machine")  # fmt: skip
    policy = read_policy(bundle)
    items = _golden(bundle)
    check_any(len(items), bundle)
    served: Served = connect(bundle, url)
    try:
        found = tuple(_asked(bundle, items, served, policy["tolerance"]))
    finally:
        served.close()
    _judge(bundle, url, found, int(policy.get("max_failing", 0)))
    return tuple(one.line for one in found)


def _golden(bundle: Path) -> tuple[Golden, ...]:
    try:
        from dspec.targets.shipped.errors import GoldenError
        from dspec.targets.shipped.golden import read_golden
    except ImportError as error:
        hint = "pip install 'dspec[triton]'"
        raise MachineError.of("E0605", f"comparing answers needs {error.name}", hint=hint) from error
    try:
        return read_golden(bundle / "golden")
    except GoldenError as error:
        raise SpecError.of("E0717", f"{bundle}: {error}", hint="build the bundle again") from error


def _asked(bundle: Path, items: tuple[Golden, ...], served: Served, tolerance: Mapping[str, Any]) -> Iterator[_Found]:
    from dspec.targets.shipped.errors import BundleError
    from dspec.targets.shipped.pipeline import Pipeline

    try:
        pipeline = Pipeline.load(bundle / "pipeline")
    except BundleError as error:
        raise MachineError.of("E0803", f"the bundle's steps do not run here: {error}") from error
    for item in items:
        for call in CALLS:
            got = served.run(item.door)
            outside, line = _outputs(item, got, tolerance)
            broken = _response(pipeline, item, got, served)
            yield _Found(fixture=item.id, line=f"{item.id} call {call}: {line}", outside=outside, broken=broken)


def _outputs(item: Golden, got: Mapping[str, Any], tolerance: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    from dspec.targets.shipped.compare import compare_outputs
    from dspec.targets.shipped.tolerance import broken_by

    outputs, valid = compare_outputs(item.outputs, got, tolerance, item.door)
    judged = {name: valid.get(name, error) for name, error in outputs.items()}
    outside = tuple(
        f"output {name}: {reason}"
        for name, error in judged.items()
        for reason in broken_by(error, tolerance.get(name, {}))
    )
    worst = {name: max((point["diff"] for point in error["frontier"]), default=0.0) for name, error in outputs.items()}
    return outside, ", ".join(
        f"{name} {outputs[name]['broken'] or f'max |Δ| {diff:.3g}'}" for name, diff in worst.items()
    )


def _response(pipeline: Pipeline, item: Golden, got: Mapping[str, Any], served: Served) -> tuple[str, ...]:
    from dspec.targets.shipped.errors import BundleError, RequestError
    from dspec.targets.shipped.pipeline import to_json
    from dspec.targets.shipped.request import read_request
    from dspec.targets.shipped.selftest import differences

    try:
        made = to_json(pipeline.after(got))
        response = served.ask(read_request(pipeline.fields, item.request, item.folder))
    except (RequestError, BundleError) as error:
        return (f"the bundle's own steps, run here, fail: {error}",)
    return tuple(f"response: {words}" for words in differences(made, to_json(response)))


def _judge(bundle: Path, url: str, found: tuple[_Found, ...], spared: int) -> None:
    parted = {one.fixture for one in found if one.outside}
    reasons = [f"{one.fixture}: {reason}" for one in found for reason in (*one.broken, *one.outside)]
    if any(one.broken for one in found) or len(parted) > spared:
        raise GateError.of(
            "E1019", f"{url} answers otherwise than {bundle} is to", notes=tuple(dict.fromkeys(reasons))[:10]
        )
