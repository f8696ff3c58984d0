"""Program → one `.pte`, with what it promises read back from it.

lower     edge operators, what the delegate takes                       pte_lower, pte_delegate, pte_neutral, pte_resize
write     memory planned for the largest declared sizes
check     the written file against the interface                        pte_read, pte_check
describe  who computes what, from which line, in which memory           pte_nodes, pte_listing
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dspec.targets.protocol import Artifact, Program

FILE = "model.pte"
LISTING = "graph.txt"
ORIGINS = "origins.json"  # beside the model, never shipped: kernel → the user's lines, for errors of later stages
TOOLCHAIN = ("torch", "executorch")


class PteBuilder:
    """`options`: `delegate`, `xnnpack` or `none`."""

    name = "pte"

    def build(self, program: Program, options: Mapping[str, Any], out: Path) -> Artifact:
        """Write `model.pte` and `graph.txt` into `out` and read the file back.

        Raises:
            ExportError: E0530, E0532 it can't be lowered; E0505, E0515, E0516, E0534 a broken promise of the file.
        """
        from dspec.targets.artifacts import pte_facts, pte_write

        out.mkdir(parents=True, exist_ok=True)
        delegate = str(options.get("delegate", "xnnpack"))
        written = pte_write.write(program, delegate, out / FILE)
        (out / LISTING).write_text(pte_facts.listed(written, program.interface), encoding="utf-8")
        (out / ORIGINS).write_text(json.dumps(pte_facts.origins(written), sort_keys=True))
        return Artifact(
            name=self.name,
            folder=out,
            file=FILE,
            facts=pte_facts.facts(written, delegate, program),
            toolchain={name: version(name).partition("+")[0] for name in TOOLCHAIN},
            warnings=written.warnings,
        )


BUILDER = PteBuilder()
