"""Runs ``reput`` in this process, and makes stores whose queues can be read."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import reput
from reput.cli.root import reput as command


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


@pytest.fixture
def run() -> Iterator[Callable[..., Outcome]]:
    """``run("info", path, "--json")``: its exit code, stdout and stderr."""
    # click before 8.2 mixes stderr into stdout unless told otherwise.
    separate = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if separate else {}))

    def invoke(*arguments: object, stdin: bytes | str | None = None) -> Outcome:
        result = runner.invoke(command, [str(each) for each in arguments], input=stdin)
        return Outcome(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield invoke
    root.handlers[:], root.level = before


SMALL = {"commitlog": {"file_size": 1 << 16, "preallocate": False}}


@pytest.fixture
def queue_store(tmp_path: Path) -> Callable[..., Path]:
    """``queue_store(messages)``: a store with consume queues that holds them."""

    def make(*messages: reput.Message, name: str = "store") -> Path:
        path = tmp_path / name
        with reput.open(path, plugins=["consumequeue"], config=SMALL) as store:
            store.put_many(list(messages))
        return path

    return make
