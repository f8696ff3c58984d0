"""Run a bundle: `python -m dspec_bundle run|selftest|pipe|serve|info`, from inside its folder."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import BundleError, MissingLibrary, RequestError

FAILED, USAGE, LACKING = 1, 2, 4


class UsageError(ValueError):
    """The command line is wrong; shown in one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0: done; 1: the bundle failed; 2: the request or the command is wrong; 4: a library is missing."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.act(options))
    except MissingLibrary as error:
        return _say(f"{error}: pip install -r requirements.txt", LACKING)
    except ModuleNotFoundError as error:
        return _say(f"{error.name} is not installed: pip install -r requirements.txt", LACKING)
    except (RequestError, UsageError) as error:
        return _say(str(error), USAGE)
    except BundleError as error:
        return _say(str(error), FAILED)
    except BrokenPipeError:  # whoever read the answers has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return 130


def _say(message: str, status: int) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dspec_bundle", description=__doc__)
    parser.add_argument("--bundle", type=Path, default=_here(), help=argparse.SUPPRESS)
    acts = parser.add_subparsers(required=True, metavar="COMMAND")
    run = acts.add_parser("run", help="answer requests; one JSON answer per line")
    run.add_argument(
        "--input",
        action="append",
        required=True,
        metavar="INPUT",
        help="name=value, name=@FILE, a .json or .jsonl file, or - for standard input",
    )
    run.add_argument("--trace", type=Path, metavar="FILE", help="write every value to FILE (.npz)")
    run.set_defaults(act=_run)
    test = acts.add_parser("selftest", help="replay the golden vectors")
    test.add_argument("--json", action="store_true", help="the whole report as JSON")
    test.set_defaults(act=_selftest)
    acts.add_parser("pipe", help="serve over standard input and output").set_defaults(act=_pipe)
    serve = acts.add_parser("serve", help="serve over HTTP")
    serve.add_argument("--host", default="127.0.0.1", help="0.0.0.0 to be reached from outside (default: 127.0.0.1)")
    serve.add_argument("--port", type=int, default=8000, help="0: any free one, the log says which (default: 8000)")
    serve.add_argument("--workers", type=int, help="processes that hold the model (default: as built)")
    serve.add_argument("--drain-s", type=float, default=1.0, help="seconds between not ready and not listening")
    serve.add_argument("--no-access-log", action="store_true", help="no log line per request")
    serve.set_defaults(act=_serve)
    acts.add_parser("info", help="what this bundle is").set_defaults(act=_info)
    return parser


def _here() -> Path:
    """The bundle that this package lies in, or the current folder."""
    around = Path(__file__).resolve().parent.parent
    return around if (around / "bundle.json").is_file() else Path.cwd()


def _selftest(options: argparse.Namespace) -> int:
    from .selftest import selftest, summary

    report = selftest(options.bundle)
    print(json.dumps(report, allow_nan=False) if options.json else summary(report))
    return 0 if report["ok"] else FAILED


def _pipe(options: argparse.Namespace) -> int:
    from .pipe import own_stdout, serve

    sink = own_stdout()  # before anything else is imported that may print
    from .runner import Bundle

    serve(Bundle(options.bundle), sys.stdin.buffer, sink)
    sink.close()
    sys.stderr.flush()
    os._exit(0)  # a thread may still wait for stdin


def _serve(options: argparse.Namespace) -> int:
    from .serve.command import serve

    return serve(options)


def _info(options: argparse.Namespace) -> int:
    from .runner import read_manifest

    manifest = read_manifest(options.bundle)
    names = ("name", "version", "target", "owner", "hardware", "runtime", "engine", "variant")
    for name in names:
        print(f"{name:9} {manifest.get(name, '')}")
    print(f"{'digest':9} {(manifest.get('digests') or {}).get('bundle', '')}")
    for side in ("inputs", "outputs"):
        for name, port in manifest["interface"][side].items():
            shape = ", ".join(map(str, port["shape"]))
            print(f"{side[:-1]:9} {name}: {port['dtype']} [{shape}]")
    return 0


def _run(options: argparse.Namespace) -> int:
    from .pipeline import Trace, to_json
    from .runner import Bundle

    bundle = Bundle(options.bundle)
    requests = list(_requests(options.input, bundle.pipeline.fields))
    if options.trace and len(requests) != 1:
        raise UsageError(f"--trace takes one request, not {len(requests)}")
    for request in requests:
        trace: Trace | None = [] if options.trace else None
        outcome = bundle.ask(request, trace)
        print(json.dumps(to_json(outcome.response), ensure_ascii=False, allow_nan=False))
        if trace is not None:
            _write_trace(options.trace, request, trace, outcome, bundle.pipeline.declared)
    sys.stdout.flush()
    return 0


def _write_trace(path: Path, request: Any, trace: Any, outcome: Any, declared: Mapping[str, Any]) -> None:
    from .trace import values_before, write_trace

    before = values_before(declared)
    try:
        write_trace(path, request, trace, outcome.door, outcome.outputs, outcome.response, before)
    except OSError as error:
        raise UsageError(f"--trace: {error}") from error


def _requests(inputs: Sequence[str], fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    from .request import read_request

    named: dict[str, Any] = {}
    for given in inputs:
        name, equals, value = given.partition("=")
        if equals and name in named:
            raise UsageError(f"--input {given}: the field {name} is given twice; a .jsonl file holds several requests")
        if equals and name in fields:
            named[name] = _value(name, value, fields[name]["type"])
        elif equals and not Path(given).exists():
            raise UsageError(f"--input {given}: no field {name}; there are {', '.join(fields)}")
        else:
            for raw, folder in _documents(given):
                yield read_request(fields, raw, folder)
    if named:
        yield read_request(fields, named, Path("/"))


def _value(name: str, text: str, kind: str) -> Any:
    """One field in JSON form; @FILE is read from wherever the user says."""
    if text.startswith("@"):
        path = Path(text[1:]).resolve()
        if kind in ("image", "audio"):
            return str(path)
        if kind == "tensor" and path.suffix == ".npy":
            return {"npy": str(path)}
        text = _text(path)
    if kind in ("image", "audio"):
        raise UsageError(f"--input {name}: write {name}=@FILE")
    return text if kind == "text" else _parsed(text, f"--input {name}")


def _documents(given: str) -> Iterator[tuple[Any, Path]]:
    """(JSON value, folder of its files) of a .json or .jsonl file, or of standard input."""
    path = Path(given)
    text = sys.stdin.read() if given == "-" else _text(path)
    folder = Path.cwd() if given == "-" else path.resolve().parent
    if given != "-" and path.suffix != ".jsonl":
        yield _parsed(text, given), folder
        return
    try:  # standard input may hold one document over many lines
        documents = [json.loads(text)] if given == "-" else []
    except ValueError:
        documents = []
    if documents:
        yield documents[0], folder
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _parsed(line, f"{given}:{number}"), folder


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--input: {path} can't be read: {error}") from error


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place}: no JSON ({error})") from error


if __name__ == "__main__":
    sys.exit(main())
