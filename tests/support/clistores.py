"""Fixtures for tests of commands: ``reput`` in this process, and stores that need no plugin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Outcome, commands

import reput


@pytest.fixture
def run() -> Iterator[Callable[..., Outcome]]:
    """``run("info", path, "--json")``: its exit code, stdout and stderr."""
    with commands() as run:
        yield run


SMALL = {"commitlog": {"file_size": 1 << 16}}


@pytest.fixture
def plain_store(tmp_path: Path) -> Callable[..., Path]:
    """``plain_store(messages)``: a store without plugins that holds them."""

    def make(*messages: reput.Message, name: str = "store") -> Path:
        path = tmp_path / name
        with reput.open(path, plugins=[], config=SMALL) as store:
            store.put_many(list(messages))
        return path

    return make


METADATA = "Metadata-Version: 2.1\nName: cli-test-plugins\nVersion: 2.5\n"
ENTRY_POINTS = """\
[reput.plugins]
broken = cli_test_plugins:BrokenPlugin
first = cli_test_plugins:FirstPlugin
held = cli_test_plugins:HeldPlugin
notes = cli_test_plugins:NotesPlugin
second = cli_test_plugins:SecondPlugin
slow = cli_test_plugins:SlowPlugin
"""
SOURCE = """\
import os, time
import reput

class NotesPlugin(reput.Plugin):
    "Notes down where each batch begins."

    @reput.hookimpl
    def reput_open(self, context):
        self.root = context.root

    @reput.hookimpl
    def reput_dispatch(self, batch):
        with open(os.path.join(self.root, type(self).__name__), "a") as file:
            file.write(f"{batch.start_offset}\\n")

class SlowPlugin(NotesPlugin):
    "Tells through a pipe when it has begun, and takes its time while it is told to."

    @reput.hookimpl
    def reput_dispatch(self, batch):
        super().reput_dispatch(batch)
        pipe = os.path.join(self.root, "begun")
        if os.path.exists(pipe):
            with open(pipe, "w"):
                os.remove(pipe)
        if batch.start_offset > 100_000 and os.path.exists(os.path.join(self.root, "paced")):
            # Slow is what it has to be, for something to be left to do when the signal comes, and
            # no test can hand a clock to another process. One batch of it is waited for at most.
            time.sleep(0.5)

class HeldPlugin(NotesPlugin):
    "Waits for somebody at the other end of a pipe."

    @reput.hookimpl
    def reput_dispatch(self, batch):
        super().reput_dispatch(batch)
        with open(os.path.join(self.root, "go")) as pipe:
            pipe.read()

class BrokenPlugin(reput.Plugin):
    "Takes no message with a certain key, and does not open where a file says so."

    @reput.hookimpl
    def reput_open(self, context):
        if os.path.exists(os.path.join(context.root, "refuse")):
            raise OSError("not today")

    @reput.hookimpl
    def reput_dispatch(self, batch):
        if any("broken" in batch.message(row).keys for row in range(len(batch))):
            raise ValueError("this one cannot be taken")

class FirstPlugin(reput.Plugin):
    "Needs nobody."

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass

class SecondPlugin(FirstPlugin):
    "Needs somebody."

    requires = frozenset({"first"})
    runs_after = frozenset({"notes"})
"""


@pytest.fixture
def own_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins that are installed, in this process and in those that it starts."""
    folder = tmp_path / "installed"
    about = folder / "cli_test_plugins-2.5.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(METADATA, encoding="utf-8")
    (about / "entry_points.txt").write_text(ENTRY_POINTS, encoding="utf-8")
    (folder / "cli_test_plugins.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.delitem(sys.modules, "cli_test_plugins", raising=False)


@pytest.fixture
def plugin_store(tmp_path: Path, own_plugins: None) -> Callable[..., Path]:
    """``plugin_store("notes", count=3000)``: a store that uses those plugins; 64 KiB a file."""

    def make(*plugins: str, count: int = 100, dispatch: Any = None, key: str = "") -> Path:
        path = tmp_path / "store"
        config = {**SMALL, "dispatch": dispatch or {}}
        with reput.open(path, plugins=list(plugins), config=config) as store:
            body = b"x" * 100
            for number in range(count):
                keys = key if number == count // 2 else ""
                store.put(reput.Message("orders", body, keys=keys or None))
            store.wait_dispatched(10)
        return path

    return make


WRITER = """
import sys, reput
store = reput.open(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    word, _, count = line.strip().partition(" ")
    if word == "put":
        for _ in range(int(count)):
            store.put(reput.Message("orders", b"from another process"))
    elif word == "wait":
        store.wait_dispatched(30)
        store.flush()
    elif word == "close":
        store.close()
    print(word, flush=True)
"""


class Writer:
    """Another process that has a store open."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._answer() == "ready"

    def tell(self, command: str) -> None:
        """Have it do something, and wait until it is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        assert self._answer() == command.partition(" ")[0]

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def writer() -> Iterator[Callable[[Path], Writer]]:
    """``writer(path)``: another process that has the store open."""
    started: list[Writer] = []

    def start(path: Path) -> Writer:
        started.append(Writer(path))
        return started[-1]

    yield start
    for each in started:
        each.kill()
