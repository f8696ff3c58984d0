"""Before a worker takes requests: warm-up over the declared shapes, then the golden vectors, alone and stacked."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..arrays import Array, dtype
from ..compare import compare_outputs
from ..errors import BundleError, RequestError
from ..golden import Golden, read_golden, read_policy
from ..request import read_request
from ..runner import Bundle
from ..selftest import replayed
from ..tolerance import broken_by
from .batch import Stacking

WARM_UP_S = 20.0  # no further shape is begun later


def warm_up(bundle: Bundle, stacking: Stacking) -> list[str]:
    """Run the least, a typical and the greatest size of every dim, one item and a full batch; the sizes run, in words.

    Row 126 of the faults: the first call of a shape is slow, and no caller should be the one who finds out.
    """
    interface = bundle.manifest["interface"]
    golden = _golden(bundle)
    example = dict(golden[0].door) if golden else {name: _zeros(port) for name, port in interface["inputs"].items()}
    end, warmed = time.monotonic() + WARM_UP_S, []
    for sizes in _points(interface, example, stacking.most):
        if time.monotonic() > end:
            break
        tensors = {name: _sized(array, interface["inputs"][name]["shape"], sizes) for name, array in example.items()}
        try:
            bundle.run(tensors)
        except RequestError:  # sizes that the interface excludes in combination
            continue
        warmed.append(" ".join(f"{dim}={size}" for dim, size in sizes.items()) or "the one shape")
    return warmed


def _points(interface: Mapping[str, Any], example: Mapping[str, Array], most: int) -> Iterator[dict[str, int]]:
    """Sizes per dim, the small ones first."""
    typical = {
        dim: int(size)
        for name, array in example.items()
        for dim, size in zip(interface["inputs"][name]["shape"], array.shape, strict=True)
        if isinstance(dim, str)
    }
    choices = []
    for dim in typical:
        declared = interface["dims"].get(dim, {})
        if dim == interface.get("batch"):
            choices.append({1, min(most, declared.get("max") or most)})
        else:
            bounds = (declared.get("min"), declared.get("max"))
            choices.append({typical[dim], *(int(bound) for bound in bounds if bound)})
    points = [dict(zip(typical, sizes, strict=True)) for sizes in itertools.product(*map(sorted, choices))]
    return iter(sorted(points, key=lambda point: int(np.prod(list(point.values())))))


def _zeros(port: Mapping[str, Any]) -> Array:
    least = (port.get("range") or (0,))[0]
    return np.full([size if isinstance(size, int) else 1 for size in port["shape"]], least, dtype(port["dtype"]))


def _sized(array: Array, shape: Sequence[int | str], sizes: Mapping[str, int]) -> Array:
    """The array's values again and again, up to the sizes."""
    for axis, dim in enumerate(shape):
        wanted = sizes.get(str(dim), array.shape[axis])
        if wanted != array.shape[axis]:
            array = array.take(np.arange(wanted) % max(1, array.shape[axis]), axis)
    return np.ascontiguousarray(array)


def _golden(bundle: Bundle) -> tuple[Golden, ...]:
    return read_golden(bundle.folder / "golden")


def proved(bundle: Bundle, stacking: Stacking) -> list[str]:
    """What of the golden vectors does not agree on this machine, in words; empty where all does."""
    report = replayed(bundle)
    failures = [] if report["ok"] else list(report["failures"])
    return failures or _stacked(bundle, stacking)


def _stacked(bundle: Bundle, stacking: Stacking) -> list[str]:
    """The golden vectors as one batch or more: their answers must not depend on their company."""
    policy = read_policy(bundle.folder / "golden")
    failures: dict[str, list[str]] = {}
    groups: dict[Any, list[tuple[Golden, dict[str, Array]]]] = {}
    for item in _golden(bundle):
        door = bundle.pipeline.before(read_request(bundle.pipeline.fields, item.request, item.folder))
        groups.setdefault(stacking.key(door, True), []).append((item, door))
    batches = (
        group[at : at + stacking.most] for group in groups.values() for at in range(0, len(group), stacking.most)
    )
    for batch in batches:
        if len(batch) > 1:
            _compare(bundle, stacking, batch, policy["tolerance"], failures)
    spared = len(failures) <= int(policy.get("max_failing", 0))
    return [] if spared else [reason for reasons in failures.values() for reason in reasons]


def _compare(
    bundle: Bundle,
    stacking: Stacking,
    batch: Sequence[tuple[Golden, dict[str, Array]]],
    tolerance: Mapping[str, Any],
    failures: dict[str, list[str]],
) -> None:
    doors = [door for _, door in batch]
    try:
        answers = stacking.parted(bundle.infer(stacking.joined(doors)), doors)
    except BundleError as error:
        failures[batch[0][0].id] = [f"a batch of {len(batch)}: {error}"]
        return
    for (item, _), outputs in zip(batch, answers, strict=True):
        found, valid = compare_outputs(item.outputs, outputs, tolerance, item.door)
        reasons = [
            f"{item.id}: output {name} in a batch of {len(batch)}: {reason}"
            for name, parted in found.items()
            for reason in broken_by(valid.get(name, parted), tolerance.get(name, {}))
        ]
        if reasons:
            failures[item.id] = reasons
