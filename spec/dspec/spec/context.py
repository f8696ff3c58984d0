"""What a check may look at."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dspec.spec.catalogue import Catalogue
from dspec.spec.draft import Draft
from dspec.spec.errors import Diagnostic
from dspec.spec.models import Spec
from dspec.spec.nodes import KeyPath
from dspec.spec.pipes import Pipes
from dspec.spec.sources import SourceMap


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    draft: Draft
    pipes: Pipes
    sources: SourceMap
    catalogue: Catalogue
    folder: Path
    today: datetime.date

    @property
    def spec(self) -> Spec:
        """Sections that are faulty hold stand-ins: a check names the sections it reads, and is then not run."""
        return self.draft.spec

    def found(self, code: str, path: KeyPath, message: str, **details: Any) -> Diagnostic:
        """A diagnostic about a key path."""
        return self.sources.diagnostic(code, path, message, **details)


class Check(NamedTuple):
    """One check, and the sections (`model.dims`) that must be sound for it to say anything."""

    reads: tuple[str, ...]
    run: Callable[[Context], Iterable[Diagnostic]]
