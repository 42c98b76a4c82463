"""Runs ``reput`` in this process, for tests of its commands."""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from click.testing import CliRunner

from reput_tools.cli.root import reput as command


class Outcome(NamedTuple):
    """How one run of ``reput`` ended."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.raw.splitlines()]


def cli_runner() -> CliRunner:
    """A runner whose results have stdout and stderr each by itself."""
    # click before 8.2 mixes stderr into stdout unless told otherwise.
    separate = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(**({"mix_stderr": False} if separate else {}))


def without_answers(*arguments: object) -> Outcome:
    """Run ``reput`` in a process of its own whose standard input is empty, as in a script.

    The runner of click before 8.2 answers a question with an empty line where its input has ended,
    and a process does not.
    """
    command = [sys.executable, "-m", "reput", *map(str, arguments)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return Outcome(ended.returncode, ended.stdout.decode(), ended.stderr.decode(), ended.stdout)


@contextlib.contextmanager
def commands() -> Iterator[Callable[..., Outcome]]:
    """``run("info", path, "--json")``: its exit code, stdout and stderr."""
    runner = cli_runner()

    def run(*arguments: object, stdin: bytes | str | None = None) -> Outcome:
        result = runner.invoke(command, [str(each) for each in arguments], input=stdin)
        return Outcome(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        yield run
    finally:
        root.handlers[:], root.level = before
