"""`dspec build`: the flow, then a table of what became of every target."""

from __future__ import annotations

import argparse
import json
import time

from dspec.compiler.build import build
from dspec.compiler.console import reporter, show_build
from dspec.compiler.evidence import read_measurement
from dspec.compiler.store import Store
from dspec.compiler.summary import build_json
from dspec.spec.load import load
from dspec.targets import catalogue


def run(options: argparse.Namespace) -> int:
    start = time.perf_counter()
    others = [read_measurement(path) for path in options.evidence]
    loaded = load(options.file, catalogue())
    result = build(loaded, Store(root=options.store.resolve()), options.bundles, others, reporter())
    if options.format == "json":
        print(json.dumps(build_json(result), indent=1))
    else:
        show_build(result, time.perf_counter() - start)
    return result.exit_code
