"""`dspec schema`: the JSON Schema of a spec or of a record, for editors and third parties."""

from __future__ import annotations

import argparse
import json

from dspec.spec.schema import bundle_schema, deploy_schema, evidence_schema
from dspec.targets import catalogue


def run(options: argparse.Namespace) -> int:
    made = {
        "deploy": lambda: deploy_schema(catalogue()),
        "bundle": bundle_schema,
        "evidence": evidence_schema,
    }
    print(json.dumps(made[options.kind](), indent=2))
    return 0
