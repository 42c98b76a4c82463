"""`reput browse` over a large store: first page, message by key, requests a second, memory."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from benchmarks.case import Case
from benchmarks.stores import open_store
from benchmarks.tables import PAGES
from benchmarks.trial import Latencies, Trial

_MESSAGES = 8_500_000
"""Messages of 1 KiB: a log of 10 GB."""
_FILES = 99
"""Rounds, each of which fills a log file of 1 GiB: 100 GB."""
_SMALL, _LARGE = 10_000, 240
"""Messages of 1 KiB and of 4 MiB in each round."""
_REQUESTS = 1_000
_CLIENTS = 4
_PLUGINS = ("consumequeue", "index")
_STEP = 10_000


def cases() -> Iterator[Case]:
    """A store of many small messages, and one whose log is large as its bodies are holes."""
    for name, fill, full in (("10GB", _many, _MESSAGES), ("100GB", _large, _FILES)):
        yield Case(
            name=f"web.pages.{name}",
            table=PAGES,
            run=partial(_run, fill=fill, full=full, size=name),
            needs=("reput", "reput_web"),
            repeats=False,
        )


def _run(trial: Trial, *, fill: Any, full: int, size: str) -> None:
    root = trial.directory / "store"
    key = fill(root, trial.count(full))
    log_size = sum(each.stat().st_size for each in (root / "commitlog").iterdir())
    with _serving(root) as server:
        pages = {
            "first page": "/overview",
            "newest messages": "/messages",
            "topics": "/topics",
            "message by key": f"/messages?key={key}",
        }
        server.get("/static/icon.svg")  # waits until the process has begun
        for label, address in pages.items():
            with trial.timed(f"{label}, {size}", 1, unit="requests") as measured:
                text = server.get(address)
            trial.require(b"</html>" in text, f"{address} is not a page")
            measured.facts["log"] = f"{log_size / 1e9:.0f} GB"
        rows = json.loads(server.get(f"/messages.json?key={key}"))["rows"]
        trial.require(len(rows) == 1, f"{key} is the key of {len(rows)} messages")
        address = f"/message?at={rows[0]['physical_offset']}"
        each = max(trial.count(_REQUESTS, 2 * _CLIENTS) // _CLIENTS, 1)
        times: list[int] = []
        with (
            trial.timed(f"message page, {size}", each * _CLIENTS, unit="requests") as measured,
            ThreadPoolExecutor(_CLIENTS) as clients,
        ):
            for found in clients.map(partial(server.ask_often, address), [each] * _CLIENTS):
                times += found
        measured.latencies = Latencies.of("request", times)
        measured.facts["peak of the server"] = f"{server.peak_size() / 1e6:.0f} MB"


@attrs.define(eq=False)
class _Server:
    """The command, which runs in a process of its own."""

    process: subprocess.Popen[str]
    port: int

    def get(self, address: str) -> bytes:
        """Return one page."""
        with contextlib.closing(self._connection()) as connection:
            return _ask(connection, address)

    def ask_often(self, address: str, count: int) -> list[int]:
        """Ask for a page several times over one connection; return the times, ns."""
        times = []
        with contextlib.closing(self._connection()) as connection:
            for _ in range(count):
                began = time.perf_counter_ns()
                _ask(connection, address)
                times.append(time.perf_counter_ns() - began)
        return times

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def peak_size(self) -> int:
        """Return the most memory that the process has had, bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0


def _ask(connection: http.client.HTTPConnection, address: str) -> bytes:
    connection.request("GET", address)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{address} answered {answer.status}")
    return text


@contextlib.contextmanager
def _serving(root: Path) -> Iterator[_Server]:
    command = [sys.executable, "-m", "reput", "browse", str(root), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield _Server(process, json.loads(process.stdout.readline())["port"])
        finally:
            process.terminate()


def _many(root: Path, count: int) -> str:
    """Put messages of 1 KiB; return the key of one in the middle."""
    import reput

    body = b"x" * 1_024
    with open_store(root, plugins=_PLUGINS) as store:
        for start in range(0, count, _STEP):
            store.put_many(
                [
                    reput.Message(f"topic-{n % 20}", body, n % 4, tags="tag", keys=f"key-{n}")
                    for n in range(start, min(start + _STEP, count))
                ]
            )
        store.wait_dispatched()
    return f"key-{count // 2}"


def _large(root: Path, file_count: int) -> str:
    """Fill log files, mostly with bodies of zeros, whose space is freed; return a key."""
    import reput

    tool = shutil.which("fallocate")
    large, small = b"\0" * (4 << 20), b"x" * 1_024
    dug = 0
    with open_store(root, plugins=_PLUGINS) as store:
        for number in range(file_count):
            messages = [
                reput.Message(f"topic-{n % 20}", small, n % 4, keys=f"key-{number}-{n}")
                for n in range(_SMALL)
            ]
            messages += [reput.Message("large", large, n % 4) for n in range(_LARGE)]
            for start in range(0, len(messages), 100):
                store.put_many(messages[start : start + 100])
            store.wait_dispatched()
            store.flush()
            files = sorted((root / "commitlog").iterdir())
            if tool is not None:  # without it the log takes all of its space
                for each in files[dug:]:
                    subprocess.run([tool, "--dig-holes", str(each)], check=True)
            dug = max(len(files) - 1, 0)  # the last one grows
    return f"key-{file_count // 2}-{_SMALL // 2}"
