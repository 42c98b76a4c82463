"""RocketMQ's released client in Python for release 5, in processes of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reput_server import LocalBroker

ROOT = Path(__file__).parents[3]
CLIENT = Path(os.environ.get("REPUT_PYTHON5", Path(sys.prefix) / "python5"))
"""Where the client is installed, apart from the older one, which has the same name."""
pytestmark = pytest.mark.skipif(
    not (CLIENT / "rocketmq").is_dir(), reason="needs rocketmq-python-client below REPUT_PYTHON5"
)


EXPECTED = [
    "refused normal",
    "refused fifo",
    "refused nowhere",
    "simple paid 1 ['k1']",
    "late committed",
    "late later",
    "push one 1",
    "push one 2",
    "push two 1",
    "fifo 0 1 1 2 3",
]
"""What the program prints."""


def run(*words: str) -> list[str]:
    """Run a program with the client, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_snippet_of_the_page_runs():
    page = (ROOT / "docs" / "clients-5.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)

    assert run("-c", code) == ["b'one book'"]


def test_the_client_does_what_it_can():
    with LocalBroker(grpc=True) as broker:
        for name in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
            broker.create_topic(name.lower(), message_type=name)
        broker.create_group("ordered", ordered=True)

        said = run(str(Path(__file__).parent / "python5" / "program.py"), broker.endpoints)

        assert broker.messages("%DLQ%simple") == []
    assert said == EXPECTED
