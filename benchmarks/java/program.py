"""RocketMQ's store of one version, in one JVM that stays for the whole run.

`tests/interop/java_store.py` builds the program and starts it; `Serve.java` is its other end.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from benchmarks.runner import LOOK_EVERY, private_memory, reason

_PATH = Path(__file__).resolve().parents[2] / "tests" / "interop" / "java_store.py"


class JavaWorkError(Exception):
    """The program did not do its work; the text says why."""


@attrs.frozen
class Answer:
    """What one piece of work took."""

    measurements: list[dict[str, Any]]
    """As of `benchmarks.trial.Measurement`."""
    private_memory: int | None
    """The most bytes seen meanwhile, mapped files not included; None where not known."""


def java_store() -> ModuleType:
    """Return the module that builds and starts RocketMQ's store."""
    name = _PATH.stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _PATH)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def parsed(line: str) -> dict[str, Any] | None:
    """Return the row that a line of the program is; None for what its libraries print."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("kind"), str) else None


class JavaProgram:
    """Does work in order, each piece until its end."""

    def __init__(self, command: Sequence[str], errors: Path, timeout: float) -> None:
        """Start the program.

        Args:
            command: its command line, with the word ``serve`` at the end.
            errors: file that takes what it writes to stderr.
            timeout: seconds that one piece of work may take.
        """
        self._errors = errors
        self._timeout = timeout
        with errors.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
            )
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # words that it did not take
            self._process.stdin.close()

    def do(self, *words: str) -> Answer:
        """Do one piece of work.

        Raises:
            JavaWorkError: it failed, took too long, or the process has ended; in the last two cases
                there is no process any more.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise JavaWorkError(self._why_ended()) from error
        deadline = time.monotonic() + self._timeout
        found: list[dict[str, Any]] = []
        highest = 0
        while True:
            highest = max(highest, private_memory(self._process.pid))
            try:
                line = self._lines.get(timeout=LOOK_EVERY)
            except queue.Empty:
                if time.monotonic() > deadline:
                    self._process.kill()
                    self._process.wait()  # so that the next call sees its end, and not a time-out
                    raise JavaWorkError(f"took longer than {self._timeout:g} s") from None
                continue
            if line is None:
                raise JavaWorkError(self._why_ended())
            row = parsed(line)
            if row is None:
                continue
            if row["kind"] == "error":
                raise JavaWorkError(str(row["text"]))
            if row["kind"] == "end":
                return Answer(found, highest or None)
            found.append(_measurement(row))

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def _why_ended(self) -> str:
        code = self._process.wait()
        lines = self._errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return reason(code, lines)


def _measurement(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the worker of one of our cases tells it."""
    return {
        "label": row["kind"],
        "count": row["count"],
        "size": 0,
        "unit": "messages",
        "baseline": False,
        "seconds": row.get("seconds", 0.0),
        "cpu_seconds": row.get("cpu_seconds", 0.0),
        "latencies": None,
        "facts": {},
    }
