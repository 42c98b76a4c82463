from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from reput_tools.cli.kit import demostore
from reput_tools.cli.kit.exitcodes import ExitCode


@pytest.mark.costly
def test_the_demo_is_right_about_every_message(run, tmp_path) -> None:
    path = tmp_path / "demo"

    outcome = run("demo", "--directory", path, "--count", 3000, "--json")

    document = outcome.json
    assert outcome.code == ExitCode.OK
    assert document["right"] is True
    assert document["directory"] == str(path)
    assert [check["found"] for check in document["checks"]] == [60_000, 60_000, 3000, 3000, 16]
    steps = {step["step"]: step for step in document["steps"]}
    assert steps["append"]["message_count"] == 3000
    assert steps["read back"]["message_count"] == 63_000
    assert outcome.err == ""


@pytest.mark.costly
def test_the_demo_shows_what_to_try_next_and_that_works(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["reput"])  # however pytest itself was called
    outcome = run("demo", "--directory", tmp_path / "demo", "--count", 1)

    commands = [
        shlex.split(line)[1:]
        for line in outcome.out.splitlines()
        if line.startswith("  reput ") and "--follow" not in line and " put " not in line
    ]
    if commands[0][0] == "browse":  # it serves until it is ended; where it is installed
        del commands[0]
    assert [command[0] for command in commands] == ["info", "cat", "get", "plugins"]
    assert [run(*command).code for command in commands] == [ExitCode.OK] * 4
    document = run("info", tmp_path / "demo", "--json").json
    assert document["clean"] is True
    assert sum(topic["message_count"] for topic in document["topics"]) == 60_001


@pytest.mark.costly
def test_a_message_that_is_not_what_java_wrote_is_found(run, tmp_path, monkeypatch) -> None:
    unpack = demostore.unpack

    def unpack_and_damage(directory: str) -> int:
        size = unpack(directory)
        log = Path(directory, "commitlog", "0" * 20)
        damaged = bytearray(log.read_bytes())
        damaged[100] ^= 1  # in the body of the first message
        log.write_bytes(damaged)
        return size

    monkeypatch.setattr(demostore, "unpack", unpack_and_damage)
    outcome = run("demo", "--directory", tmp_path / "demo", "--count", 10)

    assert outcome.code == ExitCode.DAMAGED
    assert "WRONG  59,999 of 60,000 messages of RocketMQ have the body" in outcome.out
