"""Whether the parts of an ensemble fit together: names, types, shapes and batching along every edge. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dspec.targets.triton.config import ANY_SIZE, Config, Edge, Part


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """One end of an edge: a tensor of the ensemble, as the model named has it."""

    model: str
    edge: Edge

    def __str__(self) -> str:
        dims = ", ".join("?" if size == ANY_SIZE else str(size) for size in self.edge.dims)
        return f"{self.model}'s {self.edge.name} ({self.edge.type} [{dims}])"


def misfits(ensemble: Config, models: Mapping[str, Config]) -> tuple[str, ...]:
    """What does not fit, in words with both ends named; empty where the ensemble can run. `models`: the others, by name."""
    parts = [part for part in ensemble.parts if part.model in models]
    unknown = [f"{ensemble.name} has a step {part.model}, which is no model of the repository"
               for part in ensemble.parts if part.model not in models]  # fmt: skip
    return (*unknown, *_names(ensemble, parts, models), *_edges(ensemble, parts, models), *_batches(ensemble, models))


def _names(ensemble: Config, parts: Iterable[Part], models: Mapping[str, Config]) -> Iterator[str]:
    for part in parts:
        model = models[part.model]
        for word, named, edges in (("input", part.inputs, model.inputs), ("output", part.outputs, model.outputs)):
            known = {edge.name for edge in edges}
            yield from (
                f"{ensemble.name} maps {name}, which is no {word} of {part.model}"
                for name in named
                if name not in known
            )
        yield from (f"{part.model}'s input {edge.name} is mapped to nothing" for edge in model.inputs if edge.name not in part.inputs)  # fmt: skip
    read = {tensor for part in parts for tensor in part.inputs.values()}
    yield from (
        f"{ensemble.name}'s input {edge.name} is read by no step" for edge in ensemble.inputs if edge.name not in read
    )


def _written(ensemble: Config, parts: Iterable[Part], models: Mapping[str, Config]) -> list[tuple[str, End]]:
    found = [(edge.name, End(model=ensemble.name, edge=edge)) for edge in ensemble.inputs]
    for part in parts:
        edges = {edge.name: edge for edge in models[part.model].outputs}
        found += [(to, End(model=part.model, edge=edges[name])) for name, to in part.outputs.items() if name in edges]
    return found


def _read(ensemble: Config, parts: Iterable[Part], models: Mapping[str, Config]) -> list[tuple[str, End]]:
    found = []
    for part in parts:
        edges = {edge.name: edge for edge in models[part.model].inputs}
        found += [(at, End(model=part.model, edge=edges[name])) for name, at in part.inputs.items() if name in edges]
    return [*found, *((edge.name, End(model=ensemble.name, edge=edge)) for edge in ensemble.outputs)]


def _edges(ensemble: Config, parts: list[Part], models: Mapping[str, Config]) -> Iterator[str]:
    written = _written(ensemble, parts, models)
    counts = Counter(name for name, _ in written)
    for name in (name for name, count in counts.items() if count > 1):
        ends = " and ".join(str(end) for tensor, end in written if tensor == name)
        yield f"the tensor {name} is written twice: {ends}"
    sources = dict(written)
    for name, end in _read(ensemble, parts, models):
        source = sources.get(name)
        if source is None:
            yield f"nothing writes the tensor {name}, which {end} reads"
        elif source.edge.type != end.edge.type:
            yield f"{source} feeds {end}: the types differ"
        elif not _fits(source.edge.dims, end.edge.dims):
            yield f"{source} feeds {end}: the shapes differ"


def _fits(gives: tuple[int, ...], takes: tuple[int, ...]) -> bool:
    return len(gives) == len(takes) and all(
        ANY_SIZE in pair or pair[0] == pair[1] for pair in zip(gives, takes, strict=True)
    )


def _batches(ensemble: Config, models: Mapping[str, Config]) -> Iterator[str]:
    """An ensemble stacks what its steps stack: no more at once than each of them, and all or none."""
    for part in ensemble.parts:
        model = models.get(part.model)
        if model is None:
            continue
        if bool(model.max_batch) != bool(ensemble.max_batch):
            yield (
                f"{ensemble.name} has max_batch_size {ensemble.max_batch} and its step {model.name} {model.max_batch}: "
                "with and without a batch do not mix"
            )
        elif model.max_batch < ensemble.max_batch:
            yield f"{ensemble.name} lets {ensemble.max_batch} items in and its step {model.name} takes {model.max_batch}"
