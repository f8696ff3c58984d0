"""Trains the network; writes model.safetensors, statistics.json and fixtures/wines.jsonl.

    python examples/tabular/train.py

The data is the wine set that scikit-learn ships: 178 wines of three cultivators, thirteen measurements. One of them,
the colour's intensity, becomes the column that a taster would fill in: pale, medium or deep. A quarter of the wines is
held out, never seen in training, and becomes the fixtures. Some cells are left out, in both parts, as real tables have
it: then a measurement takes the median, and the colour counts as unknown.
"""

from __future__ import annotations

import csv
import json
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model import build
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from training import COLOURS, CULTIVATORS, MEASUREMENTS, features

HERE = Path(__file__).parent
SEED = 20
HELD_OUT = 0.25
EPOCHS = 400
OPTIONAL = ("malic_acid", "magnesium", "proline")
LEFT_OUT = 0.08  # of the optional cells and of the colours
PALE, DEEP = 3.5, 6.0  # colour intensity below the one, from the other on: about a third of the wines each
Row = tuple[dict[str, Any], int]


def main() -> None:
    draw = np.random.default_rng(SEED)
    rows = [(_with_gaps(wine, draw), label) for wine, label in _rows()]
    training, held_out = _split(rows, draw)
    statistics = _statistics([wine for wine, _ in training])
    weights = _train(training, statistics)
    save_file(weights, HERE / "model.safetensors")
    (HERE / "statistics.json").write_text(json.dumps(statistics, indent=1) + "\n", "utf-8")
    lines = [json.dumps({"wine": wine, "expected": CULTIVATORS[label]}) for wine, label in held_out]
    (HERE / "fixtures" / "wines.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    model = build()
    model.load_state_dict(weights)
    for name, part in (("training", training), ("held out", held_out)):
        print(f"{name}: {_accuracy(model, part, statistics):.3f} of {len(part)} right")


def _rows() -> list[Row]:
    """The wines of scikit-learn's file, found without importing the package."""
    path = distribution("scikit-learn").locate_file("sklearn/datasets/data/wine_data.csv")
    with open(str(path), encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    return [(_wine([float(cell) for cell in line[:-1]]), int(line[-1])) for line in lines]


def _wine(cells: list[float]) -> dict[str, Any]:
    intensity = cells.pop(9)
    colour = COLOURS[(intensity >= PALE) + (intensity >= DEEP)]
    return {**dict(zip(MEASUREMENTS, cells, strict=True)), "colour": colour}


def _with_gaps(wine: dict[str, Any], draw: np.random.Generator) -> dict[str, Any]:
    """Some cells are null; a colour may also be a word that training does not know."""
    gaps = {name: None for name in OPTIONAL if draw.random() < LEFT_OUT}
    colour = {"colour": "cloudy" if draw.random() < 0.5 else None} if draw.random() < LEFT_OUT else {}
    return wine | gaps | colour


def _split(rows: list[Row], draw: np.random.Generator) -> tuple[list[Row], list[Row]]:
    """Shuffled; of each cultivator the same share is held out."""
    parts: tuple[list[Row], list[Row]] = ([], [])
    for label in range(len(CULTIVATORS)):
        own = [row for row in rows if row[1] == label]
        order = draw.permutation(len(own))
        for place, at in enumerate(order):
            parts[place < HELD_OUT * len(own)].append(own[at])
    training, held_out = parts
    return training, [held_out[at] for at in draw.permutation(len(held_out))]


def _statistics(wines: list[dict[str, Any]]) -> dict[str, Any]:
    """Over the cells that are there: median of the optional columns; mean and deviation, in the order of MEASUREMENTS."""
    columns = [np.array([wine[name] for wine in wines if wine[name] is not None]) for name in MEASUREMENTS]
    median = {name: float(np.median(column)) for name, column in zip(MEASUREMENTS, columns, strict=True)}
    return {
        "median": {name: median[name] for name in OPTIONAL},
        "mean": [round(float(column.mean()), 4) for column in columns],
        "std": [round(float(column.std()), 4) for column in columns],
    }


def _train(rows: list[Row], statistics: dict[str, Any]) -> dict[str, torch.Tensor]:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    inputs, labels = _tensors(rows, statistics)
    model = build().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.05)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        cross_entropy(model(inputs)["logits"], labels, label_smoothing=0.05).backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _tensors(rows: list[Row], statistics: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    stacked = np.stack([features(wine, statistics) for wine, _ in rows])
    return torch.from_numpy(stacked), torch.tensor([label for _, label in rows])


def _accuracy(model: torch.nn.Module, rows: list[Row], statistics: dict[str, Any]) -> float:
    inputs, labels = _tensors(rows, statistics)
    with torch.inference_mode():
        best = model.eval()(inputs)["logits"].argmax(dim=1)
    return float((best == labels).double().mean())


if __name__ == "__main__":
    main()
