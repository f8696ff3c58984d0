"""The command line. Each command imports what it needs when it runs, so that `--help` and `check` stay instant."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dspec.spec.errors import DspecError, MachineError, unwritable

INTERRUPTED = 130
FORMATS = ("text", "json", "github", "sarif")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code of the design's section 8. Never a traceback for a user's mistake."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = _parser()
    options = parser.parse_args(arguments)
    if not hasattr(options, "run"):
        parser.print_help()
        return 2
    try:
        return int(options.run(options))
    except DspecError as error:
        _show_error(error, options)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted; bundles/ is as it was", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, e.g. `dspec … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a folder that may not be written
        _show_error(unwritable(error), options)
        return MachineError.exit_code


def _show_error(error: DspecError, options: argparse.Namespace) -> None:
    from dspec.spec.render import render

    format = getattr(options, "format", "text")
    if format == "json" and options.command != "check":  # one shape per command, whatever happens
        import json

        print(json.dumps({"exit_code": error.exit_code, "errors": [found.to_json() for found in error.diagnostics]}))
        return
    stream = sys.stderr if format == "text" else sys.stdout
    print(render(error.diagnostics, format, color=format == "text" and stream.isatty()), file=stream)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dspec", description="From one deploy.yaml to proven, deterministic model bundles."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for add in (
        _init,
        _check,
        _plan,
        _schema,
        _explain,
        _pin,
        _build,
        _measure,
        _verify,
        _run,
        _serve,
        _triton,
        _drift,
        _trace_diff,
        _doctor,
    ):
        add(commands)
    return parser


class _Version(argparse.Action):
    """Looked up only when asked for: reading package metadata takes longer than a check."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import version

        print(f"dspec {version('dspec')}")
        parser.exit()


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help: str,
    module: str,
) -> argparse.ArgumentParser:
    """A command whose code is `dspec.compiler.commands.<module>:run`, imported when it runs."""
    parser = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
    parser.set_defaults(run=_late(module), command=name)
    return parser


def _late(module: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        import importlib

        found: int = importlib.import_module(f"dspec.compiler.commands.{module}").run(options)
        return found

    return run


def _init(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "init", "write a commented deploy.yaml, with its schema beside it", "init")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), help="where to write (default: here)")
    parser.add_argument(
        "--factory", default="", metavar="FILE.py:CALLABLE", help="what builds the nn.Module (default: model.py:build)"
    )
    parser.add_argument("--name", default="", help="the deployment's name (default: the folder's)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=DTYPE[DIM,…]",
        help="e.g. image=float32[batch,3,224,224]",
    )
    parser.add_argument("--output", action="append", default=[], metavar="NAME=DTYPE[DIM,…]")
    parser.add_argument("--weights", default="", metavar="FILE", help="a .safetensors, checkpoint or .npz file")
    parser.add_argument("--fixtures", default="", metavar="FILE", help="real requests: .jsonl or .npz")


def _check(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "check", "check specs without running anything of theirs", "check")
    parser.add_argument("files", nargs="*", default=["deploy.yaml"], help="files or globs (default: deploy.yaml)")
    parser.add_argument("--format", choices=FORMATS, default="text")


def _plan(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "plan", "show what a build would do, and every default taken", "plan")
    parser.add_argument("file", nargs="?", type=Path, default=Path("deploy.yaml"))
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _schema(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "schema", "print a JSON Schema", "schema")
    parser.add_argument("kind", nargs="?", choices=("deploy", "bundle", "evidence"), default="deploy")


def _explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "explain", "say what an error code means and what to do", "explain")
    parser.add_argument("code", nargs="?", default="", help="e.g. E0104; without one, list them all")


def _pin(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "pin", "write the sha256 of every file from outside into the spec", "pin")
    parser.add_argument("file", nargs="?", type=Path, default=Path("deploy.yaml"))


def _build(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "build", "build, prove and publish every target of a spec", "build")
    parser.add_argument("file", nargs="?", type=Path, default=Path("deploy.yaml"))
    parser.add_argument("--evidence", type=Path, action="append", default=[], help="measurements taken elsewhere")
    parser.add_argument(
        "--remeasure", action="store_true", help="take this machine's numbers anew, e.g. after a noisy run"
    )
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="give up after so long (exit 4)")
    _places(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bundles", type=Path, default=Path("bundles"), help="publications (default: ./bundles)")
    parser.add_argument(
        "--store",
        type=Path,
        default=Path(".dspec"),
        help="cache and withheld builds (default: ./.dspec)",
    )


def _measure(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "measure", "measure a bundle on this machine", "measure")
    parser.add_argument("bundle", type=Path, help="bundles/<name>/<target>")
    parser.add_argument("-o", "--output", type=Path, required=True, help="for `dspec build --evidence`")
    parser.add_argument("--machine", default="", help="a name for this machine in the record")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "verify", "check a bundle's digests and replay its golden vectors", "verify")
    parser.add_argument("bundle", type=Path, help="bundles/<name>/<target>")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--digests", action="store_true", help="check the digests only; runs nothing")
    instead.add_argument(
        "--server",
        default="",
        metavar="URL",
        help="ask a Triton server that runs already instead: http://host:8000, grpc://host:8001",
    )
    instead.add_argument("--answers", type=Path, help="judge answers and timings made elsewhere instead")
    parser.add_argument("--machine", default="", help="with --answers: where they were made")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        help="with --answers: write a measurement for `dspec build --evidence`",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "run", "answer requests with a bundle", "run")
    parser.add_argument("bundle", type=Path, help="bundles/<name>/<target>")
    parser.add_argument(
        "--input",
        action="append",
        required=True,
        help="NAME=TEXT, NAME=@FILE, a request.json, a .jsonl, or - for stdin",
    )
    parser.add_argument("--trace", type=Path, help="write the value after every step (.npz)")


def _serve(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "serve", "serve a bundle over HTTP on this machine", "serve")
    parser.add_argument("bundle", type=Path, help="bundles/<name>/<target>")
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any free one, the log says which (default: 8000)")


def _triton(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "triton", "fetch a Triton server to measure and serve Triton bundles with", "triton")
    parser.add_argument("what", choices=("install",), help="into a folder of the user's cache, its hash checked")
    parser.add_argument(
        "--wheel", type=Path, metavar="FILE", help="the wheel, where it is at hand already; its hash is checked"
    )


def _drift(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "drift", "hold what a service saw against the fixtures of its bundle", "drift")
    parser.add_argument("bundle", type=Path, help="bundles/<name>/<target>")
    parser.add_argument("metrics", nargs="+", metavar="METRICS", help="files or addresses of /metrics; several add up")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _trace_diff(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "trace-diff", "say at which step two traces of a request part", "trace_diff")
    parser.add_argument("first", type=Path, metavar="A", help="written by `dspec run --trace`, or a golden trace.npz")
    parser.add_argument("second", type=Path, metavar="B")
    parser.add_argument(
        "--spec", type=Path, metavar="FILE", help="hold both against PyTorch as well: captures the spec"
    )
    parser.add_argument("--atol", type=float, default=1e-5, help="of floats (default: 1e-5)")
    parser.add_argument("--rtol", type=float, default=1e-5, help="of floats (default: 1e-5)")
    parser.add_argument("--store", type=Path, default=Path(".dspec"), help="cache (default: ./.dspec)")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _command(commands, "doctor", "say what this machine has, and what it can build and measure", "doctor")
    parser.add_argument("file", nargs="?", type=Path, help="a spec: which of its targets can be built here")
    parser.add_argument("--format", choices=("text", "json"), default="text")


if __name__ == "__main__":
    sys.exit(main())
