"""Findings of later stages, put at the line of the spec that they are about."""

from __future__ import annotations

from collections.abc import Iterable

from dspec.spec.errors import Diagnostic, DspecError
from dspec.spec.load import Loaded
from dspec.spec.models import Spec


def placed(error: DspecError, loaded: Loaded, target_id: str = "") -> DspecError:
    """The same error, its diagnostics at lines of the spec wherever they name a key and no other file."""
    return type(error)(placed_all(error.diagnostics, loaded, target_id))


def placed_all(found: Iterable[Diagnostic], loaded: Loaded, target_id: str = "") -> tuple[Diagnostic, ...]:
    """As `placed`. `target_id` completes keys that a runtime, which does not know its target's name, gave."""
    return tuple(_placed(one, loaded, target_id) for one in found)


def _placed(found: Diagnostic, loaded: Loaded, target_id: str) -> Diagnostic:
    if not found.key or found.line or found.file not in ("", str(loaded.path)):
        return found
    head, *rest = found.key.split(".")
    if target_id and head not in Spec.model_fields:
        head, rest = "targets", [target_id, head, *rest]
    return loaded.diagnostic(
        found.code,
        [int(part) if part.isdigit() else part for part in (head, *rest)],
        found.message,
        expected=found.expected,
        hint=found.hint,
        severity=found.severity,
        notes=found.notes,
    )
