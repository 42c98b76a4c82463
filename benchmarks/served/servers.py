"""Servers that are compared: ``reput serve``, and a real broker with its name server.

`tests/support/realbroker` fetches and starts the real one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil

VERSION = "5.3.3"
_ROOT = Path(__file__).resolve().parents[2]
_FILE_SIZE = 1 << 30
_STOP_SECONDS = 60
JVM = ("-Xms1g", "-Xmx1g", "-Xmn512m", "-XX:+UseG1GC")
"""Of the real broker: a gigabyte is more than it fills here; its script asks for eight."""


def support(name: str) -> Any:
    """Return a module of `tests/support`."""
    folder = str(_ROOT / "tests" / "support")
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(name)


@attrs.frozen
class Contender:
    """One server that runs."""

    name: str
    name_server: str
    broker: str
    process: psutil.Process

    def cpu_seconds(self) -> float:
        """Return the processor time that the broker's process has taken."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> int:
        """Return the bytes of its anonymous memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("RssAnon:"))
        return int(line.split()[1]) * 1024


@contextlib.contextmanager
def reput_server(directory: Path, flush: str) -> Iterator[Contender]:
    """Serve a new store in a process of its own, as ``reput serve`` does for everybody."""
    directory.mkdir()
    with served(directory / "store", "--flush", flush) as (facts, process):
        yield Contender(
            "reput serve", facts["name_server"], facts["broker"], psutil.Process(process.pid)
        )


@contextlib.contextmanager
def served(store: Path, *options: str) -> Iterator[tuple[dict[str, Any], subprocess.Popen[str]]]:
    """Run ``reput serve`` on free ports; gives what it says of itself, and the process."""
    command = [sys.executable, "-m", "reput", "serve", str(store), "--json", *options]
    command += ["--listen", "127.0.0.1:0", "--namesrv", "127.0.0.1:0"]
    path = store.with_name("errors.txt")
    # With bytecode, which an installation has: compiling all modules takes longer than a start.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with path.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=env
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(path.read_text(encoding="utf-8")[-2000:])
        yield json.loads(line), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_STOP_SECONDS)


@contextlib.contextmanager
def rocketmq_broker(directory: Path, flush: str) -> Iterator[Contender]:
    """Start a name server and a broker of RocketMQ.

    Raises:
        mavenparts.JavaUnavailableError: there is no Java, no Maven, or no artifacts.
    """
    # With a JVM for work, not the small one of tests.
    released = dataclasses.replace(support("realbroker").fetch(VERSION), jvm=JVM)
    with (
        released.name_server(directory / "names") as names,
        released.broker(directory / "broker", names.address, **broker_options(flush)) as broker,
    ):
        process = psutil.Process(broker.process.process.pid)
        yield Contender(f"RocketMQ {VERSION}", names.address, broker.address, process)


def broker_options(flush: str) -> dict[str, Any]:
    """Return the configuration of a real broker: files of the sizes that it has in production."""
    return {
        "flushDiskType": "SYNC_FLUSH" if flush == "sync" else "ASYNC_FLUSH",
        "mappedFileSizeCommitLog": _FILE_SIZE,
        "mappedFileSizeConsumeQueue": 300_000 * 20,
        "maxHashSlotNum": 5_000_000,
        "maxIndexNum": 20_000_000,
    }
