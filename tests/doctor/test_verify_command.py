"""`reput verify`: what it prints for people, programs and as a page, and its exit codes."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner
from verifiedstores import FILE_SIZE, flip, own_store, places, tree

import reput
from reput import Message
from reput_tools.cli.kit import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.doctor.findings import Severity

STRANGE = '<script>alert("1")</script>\u202e\x1b[31m'


@pytest.fixture
def root(tmp_path):
    return own_store(tmp_path / "store")


def run(*arguments):
    return CliRunner().invoke(command, ["verify", *map(str, arguments)])


def damage(root):
    """Change one byte of a unit, and one of a body."""
    flip(root / "consumequeue" / "t0" / "0" / f"{0:020d}", 3 * 20 + 7)
    place = places(root)[50][0]
    flip(root / "commitlog" / f"{place - place % FILE_SIZE:020d}", place % FILE_SIZE + 100)


def test_a_sound_store_is_said_to_be_healthy(root):
    before = tree(root)
    done = run(root, "--deep")

    assert done.exit_code == ExitCode.OK, done.output
    assert "120 messages" in done.output
    assert "consumequeue, index" in done.output
    assert "\nhealthy: nothing wrong was found\nNo checksum covers " in done.output
    assert tree(root) == before


def test_findings_are_printed_the_worst_first(root):
    damage(root)
    done = run(root)

    assert done.exit_code == ExitCode.LOST
    heads = re.findall(r"^(loss|damage) +(\S+)  (\S+), byte (\d+)", done.output, re.MULTILINE)
    assert [head[:2] for head in heads] == [
        ("loss", "log.body-crc"),
        ("damage", "consumequeue.unit"),
    ]
    assert "touches   t0/0@3 key k18" in done.output
    assert (
        f"do        repair the log first, because reput rebuild {root} consumequeue" in done.output
    )
    assert "found     unit 3: physical offset" in done.output


def test_what_is_printed_can_be_limited_and_is_counted(root):
    queue = root / "consumequeue" / "t0" / "0" / f"{0:020d}"
    for unit in range(0, 20, 2):
        flip(queue, unit * 20 + 19)

    done = run(root, "--limit", 3)

    assert done.exit_code == ExitCode.DAMAGED
    assert done.output.count("damage   consumequeue.unit") == 3
    assert "7 findings more, 10 in all: 10 consumequeue.unit" in done.output


def test_for_programs_there_is_one_document(root):
    damage(root)
    done = run(root, "--json")

    document = json.loads(done.output)

    assert done.exit_code == ExitCode.LOST
    assert document["worst"] == "loss"
    assert document["counts"] == {"consumequeue.unit": 1, "log.body-crc": 1}
    assert [each["severity"] for each in document["findings"]] == ["loss", "damage"]
    unit = document["findings"][1]
    assert (unit["position"], unit["message_count"]) == (67, 1)
    assert unit["messages"][0]["queue_offset"] == 3
    assert document["checked"]["messages"] == 119
    assert document["not_checked"] == []


def test_exit_codes_are_those_of_the_command_line():
    codes = {
        Severity.NOTICE: ExitCode.OK,
        Severity.WARNING: ExitCode.WARNED,
        Severity.DAMAGE: ExitCode.DAMAGED,
        Severity.LOSS: ExitCode.LOST,
    }

    assert {each: each.exit_code for each in Severity} == codes


def test_a_warning_has_a_code_of_its_own(root):
    (root / "commitlog" / "notes.txt").write_text("hello")

    assert run(root).exit_code == ExitCode.WARNED


def test_the_page_escapes_what_producers_wrote_and_loads_nothing(tmp_path):
    root = tmp_path / "store"
    small = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(root, plugins=["consumequeue", "index"], threads=False, config=small) as store:
        store.put(Message("t", b"hello", keys="<b>&" + STRANGE.replace(" ", "")))
    flip(root / "consumequeue" / "t" / "0" / f"{0:020d}", 7)
    page = tmp_path / "page.html"

    done = run(root, "--html", page)

    text = page.read_text(encoding="utf-8")
    assert done.exit_code == ExitCode.DAMAGED
    assert "consumequeue.unit" in text
    assert "&lt;b&gt;&amp;" in text
    assert "<script" not in text
    assert "<b>&" not in text
    assert "\x1b" not in text + done.output
    assert "\u202e" not in text + done.output
    assert not re.search(r"(src|href)=", text)
    assert f"The page is in {page}." in done.output


def test_a_page_that_cannot_be_written_is_an_error(root, tmp_path):
    done = run(root, "--html", tmp_path / "nowhere" / "page.html")

    assert done.exit_code == ExitCode.UNAVAILABLE
    assert "name another file" in done.output


def test_commands_of_advice_can_be_copied_whatever_the_directory_is_called(tmp_path):
    root = own_store(tmp_path / "my store; rm")
    flip(root / "consumequeue" / "t0" / "0" / f"{0:020d}", 7)

    done = run(root)

    assert f"reput rebuild '{root}' consumequeue" in done.output
