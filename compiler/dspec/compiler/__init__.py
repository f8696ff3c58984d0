"""The flow from a spec to a publication: one module per stage."""

import sys

# `python -m dspec.compiler.…` puts the working folder first on the path, and that folder is often a spec's: its json.py
# would be imported, and so executed, in place of Python's. `-m` stands in argv while a package is looked through for the
# module to run, and never later; with `python -P`, and with the `dspec` command, the folder is not there.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and sys.path:
    del sys.path[0]
