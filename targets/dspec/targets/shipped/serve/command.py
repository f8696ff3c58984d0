"""`python -m dspec_bundle serve`: start the workers, take requests, and end cleanly when told to."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from ..errors import BundleError
from ..manifest import read_manifest
from .edges import edges_of
from .log import Forward, Log
from .metrics import Metrics
from .pool import Pool
from .settings import Settings, threads_per_worker
from .web import Web, short_digest

KEEP_ALIVE_S = 75  # longer than load balancers keep theirs (60), so that they close first
GRACE_S = 2.0  # beyond the deadline of the last request


def serve(options: argparse.Namespace) -> int:
    """0: ended when told to; 1: no worker could load the bundle."""
    folder = Path(options.bundle).resolve()
    manifest = read_manifest(folder)
    fields = _fields(folder)
    settings = Settings.of(manifest, fields, {"workers": options.workers})
    threads = threads_per_worker(manifest, settings.workers)
    listening = _listen(options.host, options.port)
    config = uvicorn.Config(
        app=_not_yet, loop="auto", http="auto", lifespan="off", log_config=None, access_log=False, ws="none",
        server_header=False, timeout_keep_alive=KEEP_ALIVE_S, backlog=2048,
        timeout_graceful_shutdown=int(settings.deadline_ms / 1000 + GRACE_S),
    )  # fmt: skip
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        return runner.run(_Service(folder, manifest, fields, settings, threads, options).run(config, listening))


def _fields(folder: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads((folder / "pipeline" / "pipeline.json").read_text("utf-8"))["request"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(f"pipeline.json: {type(error).__name__}: {error}") from error
    return found


async def _not_yet(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("replaced before anything is taken")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=False)
    except OSError as error:
        raise BundleError(f"can't listen on {host}:{port}: {error.strerror or error}") from error


class _Service:
    def __init__(
        self,
        folder: Path,
        manifest: Mapping[str, Any],
        fields: Mapping[str, Any],
        settings: Settings,
        threads: int,
        options: argparse.Namespace,
    ) -> None:
        bundle = short_digest(manifest)
        self._log = Log(bundle)
        self._metrics = Metrics(bundle, edges_of(folder))
        self._pool = Pool(folder, settings, threads, self._log, self._metrics)
        self._web = Web(manifest, fields, self._pool, self._log, self._metrics, not options.no_access_log)
        self._drain_s = options.drain_s
        self._threads = threads
        self._stop = asyncio.Event()

    async def run(self, config: uvicorn.Config, listening: socket.socket) -> int:
        logging.basicConfig(handlers=[Forward(self._log)], level=logging.WARNING, force=True)
        config.app = self._web
        config.load()
        server = _Server(config)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop, number, server)
        host, port = listening.getsockname()[:2]
        self._log.write(
            "listening", url=f"http://{'[' + host + ']' if ':' in host else host}:{port}", port=port,
            workers=self._pool.settings.workers, threads=self._threads,
        )  # fmt: skip
        self._log.flush()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await self._pool.start()
        await self._until_told()
        if not self._pool.broken.is_set():
            await asyncio.sleep(self._drain_s)
        server.should_exit = True
        await serving
        await self._pool.stop()
        self._log.write("stopped")
        self._log.flush()
        return 1 if self._pool.broken.is_set() else 0

    async def _until_told(self) -> None:
        """Until a signal, or a worker that says that the bundle can't be loaded."""
        waits = [asyncio.create_task(event.wait()) for event in (self._stop, self._pool.broken)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    def _told_to_stop(self, number: int, server: uvicorn.Server) -> None:
        if self._stop.is_set():  # a second time: at once
            server.should_exit = server.force_exit = True
        self._pool.drain()
        self._log.write("stopping", signal=signal.Signals(number).name)
        self._stop.set()


class _Server(uvicorn.Server):
    """uvicorn's, without its signal handlers: they would end the process by the signal itself, not with exit code 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
