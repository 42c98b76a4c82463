"""Runs ``reput`` in this process, and makes stores whose queues can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

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
def queue_store(tmp_path: Path) -> Callable[..., Path]:
    """``queue_store(messages)``: a store with consume queues that holds them."""

    def make(*messages: reput.Message, name: str = "store") -> Path:
        path = tmp_path / name
        with reput.open(path, plugins=["consumequeue"], config=SMALL) as store:
            store.put_many(list(messages))
        return path

    return make
