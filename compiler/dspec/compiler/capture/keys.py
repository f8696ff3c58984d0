"""Which key of a checkpoint is which tensor of the module: containers and wrapper prefixes, resolved only when exact."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from dspec.compiler.capture.weights import Checkpoint, Group
from dspec.spec.errors import DspecError, ExportError
from dspec.spec.models import Weights

Tensors = Mapping[str, torch.Tensor]
_WRAPPERS = frozenset({"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
_CONTAINERS = (
    "",
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "module",
    "net",
    "network",
    "weights",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """The names of a module's tensors.

    Attributes:
        required: keys of its state_dict.
        aliases: key → every key of the same storage (tied weights), itself included.
        optional: required keys that evaluation does not read (num_batches_tracked of old checkpoints).
        transient: buffers that are not part of the state_dict; old checkpoints may hold them.
    """

    required: frozenset[str]
    aliases: Mapping[str, frozenset[str]]
    optional: frozenset[str]
    transient: frozenset[str]

    @classmethod
    def of(cls, module: nn.Module) -> Names:
        state = {key: value for key, value in module.state_dict().items() if isinstance(value, torch.Tensor)}
        tied: dict[object, set[str]] = {}
        for key, value in state.items():
            tied.setdefault(_identity(key, value), set()).add(key)
        every = dict(module.named_buffers(remove_duplicate=False))
        return cls(
            required=frozenset(state),
            aliases={key: frozenset(keys) for keys in tied.values() for key in keys},
            optional=frozenset(key for key in state if key.endswith("num_batches_tracked")),
            transient=frozenset(every) - frozenset(state),
        )

    def tied(self, key: str, keys: Iterable[str]) -> bool:
        """Whether the key needs no value of its own."""
        return key in self.optional or key not in self.required or bool(self.aliases[key] & set(keys))

    def missing(self, keys: Iterable[str]) -> tuple[str, ...]:
        known = set(keys)
        return tuple(sorted(key for key in self.required - self.optional if not self.aliases[key] & known))

    def unexpected(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if key not in self.required and key not in self.transient)


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """Tensors of a checkpoint by the module's keys, and in words what was resolved on the way."""

    tensors: Mapping[str, torch.Tensor]
    path: str
    resolved: tuple[str, ...]

    def distance(self, names: Names) -> int:
        return len(names.missing(self.tensors)) + len(names.unexpected(self.tensors))


def _identity(key: str, value: torch.Tensor) -> object:
    if isinstance(value, UninitializedTensorMixin) or not value.numel() or value.is_meta:
        return key
    return value.untyped_storage().data_ptr(), value.storage_offset(), value.shape, value.stride()


def match(
    checkpoint: Checkpoint, names: Names, wanted: Weights, file: str, accepts: Callable[[Tensors], bool]
) -> Match:
    """The one reading of the checkpoint under which every key fits.

    `accepts` asks the module itself, whose loading hooks may know older names (weight_norm's).
    Raises ExportError with counts and the first names where there is none, or where two containers fit alike.
    """
    readings = [reading for group in checkpoint.groups for reading in _readings(group, names, wanted)]
    exact = [reading for reading in readings if not reading.distance(names)]
    if not readings:
        hint = f"its keys begin: {', '.join(list(checkpoint.groups[0].tensors)[:5])}"
        message = f"{file}: no key begins with {wanted.prefix}"
        raise ExportError.of("E0412", message, key="model.weights.prefix", hint=hint)
    translated = None if exact else next((reading for reading in readings if accepts(reading.tensors)), None)
    if translated:
        said = f"the module's own hooks translated {translated.distance(names)} names"
        return dataclasses.replace(translated, resolved=(*translated.resolved, said))
    if not exact:
        raise _mismatch(min(readings, key=lambda reading: reading.distance(names)), names, file)
    best = exact[0]
    rivals = sorted({reading.path for reading in exact} - {best.path})
    known = [name for name in _CONTAINERS if any(reading.path == name for reading in exact)]
    if rivals and not wanted.prefix and not known:
        both = ", ".join([best.path, *rivals])
        hint = f'say which: model.weights.prefix: "{best.path}."'
        raise ExportError.of(
            "E0415",
            f"{file}: several containers fit the module: {both}",
            key="model.weights",
            hint=hint,
        )
    if rivals and known:
        best = next(reading for reading in exact if reading.path == known[0])
        others = sorted({reading.path for reading in exact} - {best.path})
        return Match(
            tensors=best.tensors,
            path=best.path,
            resolved=(*best.resolved, f"{', '.join(others)} would fit too"),
        )
    return best


def _readings(group: Group, names: Names, wanted: Weights) -> Iterator[Match]:
    kept = {
        key: value
        for key, value in group.tensors.items()
        if not any(fnmatchcase(key, p) or fnmatchcase(f"{group.path}.{key}", p) for p in wanted.ignore)
    }
    said = [f"took the container {group.path}"] if group.path else []
    ignored = len(group.tensors) - len(kept)
    said += [f"left out {ignored} keys that model.weights.ignore names"] if ignored else []
    for tensors, how in _renamings(group.path, kept, names, wanted):
        yield Match(tensors=tensors, path=group.path, resolved=(*said, *how))


def _renamings(
    path: str, tensors: Mapping[str, torch.Tensor], names: Names, wanted: Weights
) -> Iterator[tuple[Mapping[str, torch.Tensor], tuple[str, ...]]]:
    if wanted.prefix:
        if path and f"{path}." == wanted.prefix:
            yield tensors, ()
        elif any(key.startswith(wanted.prefix) for key in tensors):
            yield {key.removeprefix(wanted.prefix): value for key, value in tensors.items()}, ()
        return
    yield tensors, ()
    bare = {_unwrapped(key): value for key, value in tensors.items()}
    if len(bare) == len(tensors) and bare.keys() != tensors.keys():
        yield bare, (f"dropped wrapper prefixes ({', '.join(_wrappers(tensors))})",)
    for base in (tensors, bare):
        prefix = _common(base)
        for cut in _prefixes(prefix):
            yield (
                {key.removeprefix(cut): value for key, value in base.items()},
                (f"dropped the prefix {cut}",),
            )
    for added in _prefixes(_common(names.required)):
        yield (
            {f"{added}{key}": value for key, value in tensors.items()},
            (f"added the prefix {added}",),
        )


def _unwrapped(key: str) -> str:
    return ".".join(part for part in key.split(".") if part not in _WRAPPERS)


def _wrappers(keys: Iterable[str]) -> list[str]:
    return sorted({f"{part}." for key in keys for part in key.split(".") if part in _WRAPPERS})


def _common(keys: Iterable[str]) -> list[str]:
    """The leading components that all keys share, never a whole key."""
    paths = [key.split(".")[:-1] for key in keys]
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return shared


def _prefixes(parts: list[str]) -> list[str]:
    return [".".join(parts[: end + 1]) + "." for end in range(len(parts))]


def _mismatch(nearest: Match, names: Names, file: str) -> DspecError:
    missing, unexpected = names.missing(nearest.tensors), names.unexpected(nearest.tensors)
    here = len(names.required) - len(missing)
    where = f" (container {nearest.path})" if nearest.path else ""
    notes = [
        _listed("missing in the file", missing),
        _listed("unexpected in the file", unexpected),
    ]
    return ExportError.of(
        "E0412",
        f"{file}{where}: {here} of the module's {len(names.required)} tensors are there; "
        f"{len(missing)} missing, {len(unexpected)} unexpected",
        key="model.weights",
        expected="every key of the module's state_dict and no other",
        hint="model.weights.prefix strips a prefix, model.weights.ignore leaves keys out; else check model.config",
        notes=tuple(note for note in notes if note),
    )


def _listed(title: str, names: tuple[str, ...]) -> str:
    more = f" … and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{title}: {', '.join(names[:5])}{more}" if names else ""
