"""The process of one stage: `python -m dspec.compiler.child REQUEST PARENT`.

Replies are JSON lines on what was standard output; prints of user code and libraries go to the log. A crash, a memory
limit or a kill takes down this process alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dspec.compiler.installed import owners_of_modules
from dspec.spec.errors import DspecError, MachineError, unwritable
from dspec.spec.files import sha256_of

PR_SET_PDEATHSIG = 1


def main() -> None:
    request_file, parent = sys.argv[1:]
    _die_with(int(parent))
    reply = _take_stdout()
    request = json.loads(Path(request_file).read_text())
    module, _, function = request["function"].partition(":")
    try:
        result = getattr(importlib.import_module(module), function)(
            request["request"],
            request["places"],
            {name: Path(path) for name, path in request["inputs"].items()},
            Path(request["out"]),
            lambda text: reply({"progress": text}),
        )
    except DspecError as error:
        _refuse(reply, error)
        return
    except ModuleNotFoundError as error:
        hint = "pip install 'dspec[onnxruntime]'"
        _refuse(reply, MachineError.of("E0605", f"this machine lacks the module {error.name}", hint=hint))
        return
    except OSError as error:
        _refuse(reply, unwritable(error))
        with contextlib.suppress(OSError):  # the log lies on the disk that may be full
            traceback.print_exc()
        return
    reply(
        {
            "value": result.get("value"),
            "warnings": [found.to_json() for found in result.get("warnings", ())],
            "discovered": {
                "files": _digests(result.get("read", ()), Path(request["folder"])),
                "distributions": _versions(result.get("distributions", ())),
            },
        }
    )


def _refuse(reply: Any, error: DspecError) -> None:
    reply({"exit": error.exit_code, "error": [found.to_json() for found in error.diagnostics]})


def _die_with(parent: int) -> None:
    """On Linux, end when the parent does, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit("the parent is gone")


def _take_stdout() -> Any:
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def reply(value: dict[str, Any]) -> None:
        channel.write(json.dumps(value) + "\n")

    return reply


def _digests(paths: Any, folder: Path) -> dict[str, str]:
    return {os.path.relpath(path, folder): sha256_of(Path(path)) for path in sorted(map(str, paths))}


def _versions(extra: Any) -> dict[str, str]:
    """Versions of every distribution that this process imported from, and of those the stage names."""
    owners = owners_of_modules()
    top = {name.partition(".")[0] for name in sys.modules}
    names = {owner for module in top for owner in owners.get(module, ())} | set(extra)
    return {name: version(name) for name in sorted(names) if name != "dspec"}


if __name__ == "__main__":
    main()
