"""`dspec explain CODE`: what an error means and what to do about it."""

from __future__ import annotations

import argparse

from dspec.spec.codes import explain, titles


def run(options: argparse.Namespace) -> int:
    if options.code:
        print(explain(options.code))
    else:
        print("\n".join(f"{code}  {title}" for code, title in titles().items()))
    return 0
