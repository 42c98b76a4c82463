"""Runs ``reput`` in this process."""

from __future__ import annotations

import inspect
import logging

import pytest
from click.testing import CliRunner

from reput.cli.root import reput as command


@pytest.fixture
def run():
    """``run("cat", path, "T")``: the result of one command."""
    separate = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if separate else {}))
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield lambda *arguments: runner.invoke(command, [str(each) for each in arguments])
    root.handlers[:], root.level = before
