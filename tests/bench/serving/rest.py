# mypy: disable-error-code="import-not-found"
"""schemathesis over the service's own OpenAPI document."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from servers import REST, Running, environment, interpreter, ours

# Of a schema-valid request it expects a 200, and JSON Schema can't say that a shape's product is the length of its data.
LEFT_OUT = "positive_data_acceptance"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--examples", type=int, default=100)
    options = parser.parse_args()
    bundle = options.bundle.resolve()
    st = environment("rest", REST).parent / "st"
    with Running(ours(bundle, interpreter(bundle))) as running:
        url = f"http://127.0.0.1:{running.server.port}/openapi.json"
        command = [st, "run", url, "--max-examples", str(options.examples), "--exclude-checks", LEFT_OUT]
        return subprocess.run(command, cwd=running.log.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
