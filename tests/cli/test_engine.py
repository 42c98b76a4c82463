"""Commands name the engine that runs the kernels, and say in one line why one cannot run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import reput
from reput.engine import ENGINE
from reput_tools.cli.kit.exitcodes import ExitCode

DOCUMENT = {"name": ENGINE.name, "version": ENGINE.version, "reason": ENGINE.reason}


def engine_line(text):
    return [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("  engine ")]


@pytest.mark.parametrize("command", ["info", "plugins"])
def test_a_store_is_shown_with_the_engine_in_use(run, plain_store, command) -> None:
    path = plain_store(reput.Message("orders", b"x"))

    document, text = run(command, path, "--json").json, run(command, path).out

    assert document["engine"] == DOCUMENT
    assert engine_line(text) == ([str(ENGINE)] if command == "info" else [])


def test_installed_plugins_are_listed_with_the_engine_in_use(run) -> None:
    assert run("plugins", "--json").json["engine"] == DOCUMENT
    assert engine_line(run("plugins").out) == [str(ENGINE)]


@pytest.mark.parametrize(
    "arguments", [["info", "PATH"], ["plugins"], ["cat", "PATH", "orders", "--scan"]]
)
def test_an_engine_that_is_none_ends_a_command_with_one_line(plain_store, arguments) -> None:
    path = plain_store(reput.Message("orders", b"x"))
    arguments = [str(path) if each == "PATH" else each for each in arguments]

    done = subprocess.run(
        [sys.executable, "-m", "reput", *arguments],
        env=os.environ | {"REPUT_ENGINE": "none such"},
        capture_output=True,
        text=True,
    )

    assert done.returncode == ExitCode.UNAVAILABLE
    assert done.stdout == ""
    assert done.stderr == (
        "reput: [environment] REPUT_ENGINE: unknown engine 'none such'; known: native, python\n"
    )
