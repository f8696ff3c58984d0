"""Loads and calls what the user wrote; whatever it raises is reported with the user's own line."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from dspec.compiler.capture.places import Places
from dspec.compiler.capture.watch import Watch
from dspec.spec.errors import DspecError, ExportError, SpecError


class UserCode:
    """The user's code of one spec: `load` gives a callable, `guard` runs user code and converts what it raises."""

    def __init__(self, folder: Path, spec_file: str) -> None:
        self.folder = folder.resolve()
        self.spec_file = spec_file
        self.places = Places(self.folder)
        self.watch = Watch(self.places)

    @contextlib.contextmanager
    def importable(self) -> Iterator[None]:
        """The spec's folder comes first on the import path; afterwards no module of it stays loaded."""
        sys.path.insert(0, str(self.folder))
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))
            for name in self.watch.imported:
                if self.places.own(getattr(sys.modules.get(name), "__file__", None) or ""):
                    del sys.modules[name]

    @contextlib.contextmanager
    def guard(self, doing: str, *, kind: type[DspecError] = ExportError, code: str = "E0403") -> Iterator[None]:
        """User code runs in here; `doing` is what it was asked to do, as `calling model.py:build`."""
        try:
            with self.watch.running():
                yield
        except DspecError:
            raise
        except (Exception, SystemExit) as error:
            raise self.blame(error, doing, kind=kind, code=code) from error

    def blame(
        self,
        error: BaseException,
        doing: str,
        *,
        kind: type[DspecError],
        code: str,
        **details: Any,
    ) -> DspecError:
        """The error of ours that stands for one of the user's."""
        place = self.places.of_error(error)
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        where: dict[str, Any] = place.details() if place else {"file": self.spec_file}
        details = {"hint": "run the line by itself in Python; the error is the code's own"} | details
        return kind.of(code, f"{doing}: {said}", **(where | details))

    def load(self, callee: str, key: str) -> Callable[..., Any]:
        """The callable that `file.py:name` or `package.module:name` names; raises SpecError where it isn't there."""
        source, _, name = callee.partition(":")
        module = self._file_module(source, key) if source.endswith(".py") else self._named_module(source, key)
        found = getattr(module, name, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
        offered = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
        near = get_close_matches(name, offered, n=1)
        what = f"is {type(found).__name__}, not a callable" if found is not None else "isn't there"
        hint = f"did you mean {near[0]}?" if near else f"name one of: {', '.join(offered[:8]) or 'none is defined'}"
        raise SpecError.of("E0401", f"{callee}: {name} {what}", file=self.spec_file, key=key, hint=hint)

    def _file_module(self, source: str, key: str) -> ModuleType:
        path = self.folder / source
        if not path.is_file():
            hint = f"paths are relative to the spec's folder ({self.folder.name}/)"
            raise SpecError.of("E0401", f"{source}: no such file", file=self.spec_file, key=key, hint=hint)
        name = source.removesuffix(".py").replace("/", ".")
        with self.guard(f"importing {source}"):
            if all(part.isidentifier() for part in name.split(".")):
                module = importlib.import_module(name)
                if Path(getattr(module, "__file__", None) or "").resolve() == path.resolve():
                    return module
            return _load_apart(f"_dspec_{path.stem.replace('-', '_')}", path)

    def _named_module(self, name: str, key: str) -> ModuleType:
        try:
            with self.watch.running():
                return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and name.startswith(error.name):
                hint = "install the package, or name a file: model.py:build"
                raise SpecError.of(
                    "E0401", f"no module named {name}", file=self.spec_file, key=key, hint=hint
                ) from None
            raise self.blame(error, f"importing {name}", kind=ExportError, code="E0403") from error
        except (Exception, SystemExit) as error:
            raise self.blame(error, f"importing {name}", kind=ExportError, code="E0403") from error


def _load_apart(name: str, path: Path) -> ModuleType:
    """A file whose name a loaded module already has (queue.py), or that is no identifier, under a name of its own."""
    found = importlib.util.spec_from_file_location(name, path)
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def check_arguments(function: Callable[..., Any], config: dict[str, Any], callee: str, spec_file: str) -> None:
    """Raise SpecError where `config` does not fit the factory's parameters."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # a C callable tells nothing; calling it will
    try:
        signature.bind(**config)
    except TypeError as error:
        raise SpecError.of(
            "E0402",
            f"model.config does not fit {callee}: {error}",
            file=spec_file,
            key="model.config",
            expected=f"keyword arguments of {callee.partition(':')[2]}{signature}",
            hint="correct the names in model.config",
        ) from None
