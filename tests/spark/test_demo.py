"""The demo of reput-spark, and the commands of its page."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")

import reput
from reput_spark.command import engines
from reput_spark.command.jvmstderr import stderr_aside
from reput_spark.jobs import rebuild as jobs_rebuild
from reput_spark.session import localsession as sessions
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark-jobs.md"


@pytest.fixture
def demo(lasting, tmp_path, monkeypatch):
    """Runs the demo; gives what came of it."""
    monkeypatch.setattr(sessions, "local_session", lambda *_, **__: lasting)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return lambda *arguments: CliRunner().invoke(command, ["spark", "demo", *arguments])


def test_the_demo_reads_rebuilds_and_counts(demo, tmp_path):
    done = demo()

    assert done.exit_code == 0, done.output
    for text in (
        "right  60,000 rows of what Apache RocketMQ 4.8.0 (Java) wrote",
        "right  consumequeue of 60,000 messages rebuilt, the same to the byte",
        "right  index of 60,000 messages rebuilt, the same to the byte",
    ):
        assert text in done.stdout
    assert re.search(r"^orders +30,085 +[\d,]+$", done.stdout, re.MULTILINE)
    assert os.listdir(tmp_path) == []


def test_the_demo_tells_a_byte_that_differs(demo, monkeypatch):
    run = jobs_rebuild.rebuild

    def damaged(spark, root, *arguments, **options):
        victim = Path(root, "consumequeue", "orders", "0", f"{0:020d}")
        with victim.open("r+b") as file:
            file.seek(47)
            file.write(b"\x55")
        return run(spark, root, *arguments, **options)

    monkeypatch.setattr(jobs_rebuild, "rebuild", damaged)

    done = demo("--json")

    found = json.loads(done.stdout)
    assert done.exit_code == ExitCode.DAMAGED
    assert found["right"] is False
    assert found["plugins"][0]["differences"][0]["position"] == 47


def test_the_commands_of_the_page_run(lasting, plain_store, tmp_path, monkeypatch):
    """In the session of all tests, and where they may in this process."""
    monkeypatch.setattr(engines, "session_of", lambda *_, **__: lasting)
    text = PAGE.read_text(encoding="utf-8")
    lines = [
        shlex.split(line)
        for line in re.findall(r"^\$ (reput spark .*)$", text, re.MULTILINE)
        if re.match(r"reput spark (verify|stats|export|rebuild)\b", line)
    ]
    monkeypatch.chdir(tmp_path)
    for name in ("STORE", "OTHER-STORE"):
        shutil.copytree(plain_store, name)
    with reput.open("STORE", plugins=["consumequeue", "index"]) as store:
        store.wait_dispatched()

    for _, *words in lines:
        for option in {"--master", "--jobs"} & {*words}:
            at = words.index(option)
            del words[at : at + 2]
        if words[1] in ("export", "rebuild"):
            words += ["--jobs", "1"]

        done = CliRunner().invoke(command, words)

        assert done.exit_code == 0, (words, done.output)
    assert {words[2] for words in lines} == {"verify", "stats", "export", "rebuild"}


def test_what_a_jvm_says_when_it_starts_is_shown_only_if_it_does_not(capfd):
    with stderr_aside():
        subprocess.run(["sh", "-c", "echo a warning >&2"], check=True)
    assert capfd.readouterr().err == ""

    with pytest.raises(subprocess.CalledProcessError), stderr_aside():
        subprocess.run(["sh", "-c", "echo the reason >&2; exit 1"], check=True)
    assert capfd.readouterr().err == "the reason\n"
