"""``reput cat --scan``, which needs no plugin, and how it prints."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reput
from reput.plugin import installed
from reput_tools.cli.kit.exitcodes import ExitCode


@pytest.fixture
def store(plain_store):
    return plain_store(
        reput.Message("orders", b"one", tags="new", keys=["k1"], properties={"region": "eu"}),
        reput.Message("audit", b"not this one"),
        reput.Message("orders", b"two\n\x1b[31m", queue_id=1),
        reput.Message("orders", "drei 深圳".encode()),
        reput.Message("orders", b"\xff\x00", queue_id=1),
    )


def test_messages_of_a_topic_come_in_the_order_of_storing(run, store) -> None:
    outcome = run("cat", store, "orders", "--scan", "--format", "%q@%o %s")

    assert outcome.code == ExitCode.OK
    assert outcome.out.splitlines() == [
        "0@0 one",
        "1@0 two\\n\\x1b[31m",
        "0@1 drei 深圳",
        "1@1 \\xff\\x00",
    ]


def test_a_line_for_people_has_time_place_tags_keys_and_body(run, store) -> None:
    outcome = run("cat", store, "orders", "--scan", "--count", 1)

    time, _, rest = outcome.out.partition("  ")
    assert len(time) == len("2026-01-31 12:00:00.123")
    assert rest == "orders/0@0  [new]  k1  one\n"


@pytest.mark.parametrize(
    ("options", "bodies"),
    [
        (("--queue", "1"), ["two\\n\\x1b[31m", "\\xff\\x00"]),
        (("--from", "1"), ["drei 深圳", "\\xff\\x00"]),
        (("--from", "latest"), []),
        (("--from", "-1h"), ["one", "two\\n\\x1b[31m", "drei 深圳", "\\xff\\x00"]),
        (("--from=-1h", "--count", "2"), ["one", "two\\n\\x1b[31m"]),
        (("--from", "2100-01-01"), []),
        (("--count", "0"), []),
    ],
)
def test_part_of_a_topic_can_be_asked_for(run, store, options, bodies) -> None:
    outcome = run("cat", store, "orders", "--scan", "--format", "%s", *options)

    assert outcome.code == ExitCode.OK
    assert outcome.out.splitlines() == bodies


def test_json_has_every_field_of_every_message(run, store) -> None:
    outcome = run("cat", store, "orders", "--scan", "--json")

    first, second, third, fourth = outcome.lines
    timestamp = first["store_timestamp"]
    assert isinstance(timestamp, int)
    assert first == {
        "topic": "orders",
        "queue_id": 0,
        "queue_offset": 0,
        "physical_offset": 0,
        "size": first["size"],
        "msg_id": "7F00000100002A9F0000000000000000",
        "store_timestamp": timestamp,
        "born_timestamp": timestamp,
        "store_host": "127.0.0.1:10911",
        "born_host": "127.0.0.1:10911",
        "tags": "new",
        "keys": ["k1"],
        "properties": {"KEYS": "k1", "TAGS": "new", "region": "eu"},
        "flag": 0,
        "sys_flag": 0,
        "transaction": "none",
        "compression": None,
        "reconsume_times": 0,
        "prepared_transaction_offset": 0,
        "body_size": 3,
        "body_crc": first["body_crc"],
        "body": "one",
        "body_encoding": "utf-8",
    }
    assert second["body"] == "two\n\x1b[31m"
    assert b"\x1b" not in outcome.raw
    assert third["body"] == "drei 深圳"
    assert (fourth["body"], fourth["body_encoding"]) == ("/wA=", "base64")


@pytest.mark.parametrize(
    ("form", "bodies"),
    [
        ("hex", ["6f6e65", "74776f0a1b5b33316d"]),
        ("base64", ["b25l", "dHdvChtbMzFt"]),
        ("none", ["", ""]),
    ],
)
def test_bodies_have_the_form_that_was_asked_for(run, store, form, bodies) -> None:
    options = ("--scan", "--body", form, "--count", 2)

    people = run("cat", store, "orders", "--format", "%s", *options)
    programs = run("cat", store, "orders", "--json", *options)

    assert people.out.splitlines() == bodies
    assert [line.get("body", "") for line in programs.lines] == bodies


def test_raw_bodies_go_into_a_pipe_as_they_are(run, store) -> None:
    outcome = run("cat", store, "orders", "--scan", "--body", "raw", "--queue", 1)

    assert outcome.raw == b"two\n\x1b[31m\n\xff\x00\n"


def test_a_template_can_end_its_lines_by_itself(run, store) -> None:
    outcome = run(
        "cat", store, "orders", "--scan", "--count", 2, "--format", r"%o\0", "--no-newline"
    )

    assert outcome.out == "0\x000\x00"


@pytest.fixture
def damaged(plain_store):
    """A store of 2,000 messages of which one has an impossible body size."""
    path = plain_store(*(reput.Message("orders", b"body %d" % each) for each in range(2000)))
    first = path / "commitlog" / ("0" * 20)
    bytes_of = bytearray(first.read_bytes())
    at = bytes_of.index(b"body 5\x06orders")
    bytes_of[at - 4 : at] = b"\x7f\xff\xff\xff"
    first.write_bytes(bytes_of)
    return path


def test_a_lost_message_is_one_line_on_stderr(run, damaged) -> None:
    outcome = run("cat", damaged, "orders", "--scan", "--format", "%s")

    assert outcome.code == ExitCode.DAMAGED
    assert outcome.out.splitlines() == [f"body {each}" for each in range(2000) if each != 5]
    (line,) = outcome.err.splitlines()
    assert line.startswith("reput: a message of unknown topic is lost (physical offset ")
    assert line.endswith(": LENGTH_MISMATCH")


def test_a_lost_message_stands_in_its_place_among_the_objects(run, damaged) -> None:
    lines = run("cat", damaged, "orders", "--scan", "--json").lines

    assert [line.get("queue_offset") for line in lines[:8]] == [0, 1, 2, 3, 4, None, 6, 7]
    hole = lines[5]
    assert hole == {
        "hole": True,
        "topic": None,
        "queue_id": None,
        "queue_offset": None,
        "physical_offset": lines[4]["physical_offset"] + lines[4]["size"],
        "size": lines[6]["physical_offset"] - hole["physical_offset"],
        "reason": "LENGTH_MISMATCH",
    }
    assert len(lines) == 2000


def test_a_hole_does_not_count_as_a_message(run, damaged) -> None:
    outcome = run("cat", damaged, "orders", "--scan", "--format", "%s", "--count", "6")

    assert outcome.out.splitlines() == [f"body {each}" for each in (0, 1, 2, 3, 4, 6)]
    assert outcome.code == ExitCode.DAMAGED


def test_messages_in_front_of_the_damage_are_no_damage(run, damaged) -> None:
    outcome = run("cat", damaged, "orders", "--scan", "--format", "%s", "--count", "3")

    assert outcome.code == ExitCode.OK
    assert outcome.err == ""


def test_reading_queues_without_a_plugin_says_what_to_do(run, store) -> None:
    outcome = run("cat", store, "orders")

    assert outcome.code == ExitCode.UNAVAILABLE
    is_installed = any(each.name == "consumequeue" for each in installed())
    step = f"`reput backfill {store} consumequeue`" if is_installed else "pip install ./plugins"
    assert step in outcome.err
    assert "plugins=" not in outcome.err
    assert "--scan" in outcome.err


@pytest.mark.costly
def test_a_reader_that_goes_away_ends_it_without_noise(plain_store) -> None:
    path = plain_store(*(reput.Message("orders", b"x" * 200) for _ in range(3000)))
    command = [sys.executable, "-m", "reput_tools.cli", "cat", str(path), "orders", "--scan"]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
        code = process.wait(timeout=60)

    assert code == ExitCode.OUTPUT_CLOSED
    assert error == b""


@pytest.mark.parametrize(
    ("tags", "bodies"),
    [("new", ["one"]), ("old || new", ["one"]), ("old", []), ("*", ["one", "2", "3"])],
)
def test_messages_with_other_tags_can_be_left_out(run, plain_store, tags, bodies) -> None:
    path = plain_store(
        reput.Message("orders", b"one", tags="new"),
        reput.Message("orders", b"2", tags="newer"),
        reput.Message("orders", b"3"),
    )

    outcome = run("cat", path, "orders", "--scan", "--tag", tags, "--format", "%s")

    assert outcome.code == ExitCode.OK
    assert outcome.out.splitlines() == bodies
