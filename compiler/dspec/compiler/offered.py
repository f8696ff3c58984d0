"""What a target's runtime offers for a spec, or why it offers nothing: the same answer for `check`, `plan` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from dspec.compiler.placed import placed
from dspec.spec.errors import Diagnostic, DspecError, SpecError
from dspec.spec.load import Loaded
from dspec.targets import runtime
from dspec.targets.protocol import Candidate


def offered(loaded: Loaded, target_id: str) -> tuple[Candidate, ...]:
    """The candidates in the order the runtime prefers them.

    Raises:
        DspecError: SpecError where the spec asks for what the runtime can't do, MachineError where a distribution is
            missing; either at lines of the spec.
    """
    target = loaded.spec.targets[target_id]
    try:
        return runtime(target.runtime).candidates(loaded.spec, target)
    except DspecError as error:
        raise placed(error, loaded, target_id) from error


def refusals(loaded: Loaded) -> Iterator[Diagnostic]:
    """What the spec asks of its runtimes in vain, whatever this machine has."""
    for target_id in loaded.spec.targets:
        try:
            offered(loaded, target_id)
        except SpecError as error:
            yield from error.diagnostics
        except DspecError:  # what this machine lacks is `dspec doctor`'s to say
            continue
