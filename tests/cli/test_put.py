from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

import pytest

import reput
from reput.files import Disk, file_name
from reput_tools.cli.kit.exitcodes import ExitCode

# Small files, no plugin: what is looked at here is what stands in the log.
OPTIONS = "[commitlog]\nfile_size = 65536\npreallocate = false\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(OPTIONS, encoding="utf-8")
    return path


def messages(path: Path) -> list[reput.MessageView]:
    with reput.open(path, mode="r", plugins=[]) as store:
        return [batch.message(row) for batch in store.scan() for row in range(len(batch))]


def test_each_body_of_the_command_line_is_a_message(run, plain_store) -> None:
    path = plain_store()

    outcome = run(
        "put", path, "orders", "one", "two\nlines", "", "--tag", "paid", stdin=b"not read"
    )

    stored = messages(path)
    assert outcome.code == ExitCode.OK
    assert [(each.body, each.tags) for each in stored] == [
        (b"one", "paid"),
        (b"two\nlines", "paid"),
        (b"", "paid"),
    ]


def test_a_body_may_be_an_object_of_json(run, plain_store) -> None:
    path = plain_store()

    outcome = run(
        "put", path, "orders", "--json-lines", '{"body": "AA==", "body_encoding": "base64"}'
    )

    assert outcome.code == ExitCode.OK
    assert [each.body for each in messages(path)] == [b"\0"]


def test_bodies_and_a_file_exclude_each_other(run, plain_store, tmp_path) -> None:
    path, file = plain_store(), tmp_path / "lines"
    file.write_bytes(b"line\n")

    outcome = run("put", path, "orders", "one", "--file", file)

    assert outcome.code == ExitCode.USAGE
    assert "BODY and --file exclude each other" in outcome.err
    assert messages(path) == []


def test_lines_become_messages_with_what_the_options_say(run, plain_store) -> None:
    path = plain_store()

    outcome = run(
        *("put", path, "orders", "--tag", "paid", "--key", "a", "--key", "b", "--queue", 3),
        *("--property", "region=eu", "--property", "formula=x=y"),
        stdin=b"one\n\ntwo \xff",
    )

    stored = messages(path)
    assert outcome.code == ExitCode.OK
    assert [message.body for message in stored] == [b"one", b"", b"two \xff"]
    assert {(each.topic, each.queue_id, each.tags, each.keys) for each in stored} == {
        ("orders", 3, "paid", ("a", "b"))
    }
    assert stored[0].properties["region"] == "eu"
    assert stored[0].properties["formula"] == "x=y"
    assert outcome.out.startswith("Stored 3 messages, ")


def test_create_makes_a_store(run, tmp_path, config) -> None:
    path = tmp_path / "store"

    outcome = run("put", path, "orders", "--create", "--config", config, stdin="one\ntwo\n")

    assert outcome.code == ExitCode.OK
    assert [message.body for message in messages(path)] == [b"one", b"two"]
    assert (path / "commitlog" / ("0" * 20)).stat().st_size == 65536


def test_create_leaves_a_directory_of_other_files_alone(run, tmp_path) -> None:
    (tmp_path / "thesis.tex").touch()

    outcome = run("put", tmp_path, "orders", "--create", stdin="one\n")

    assert outcome.code == ExitCode.NOT_FOUND
    assert "no store is created here, as the directory holds other files" in outcome.err
    assert "'thesis.tex'" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_read_in_the_place_of_standard_input(run, plain_store, tmp_path) -> None:
    path = plain_store()
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"line %d\n" % number for number in range(5000)))

    outcome = run("put", path, "orders", "--file", lines, "--json")

    assert outcome.json["message_count"] == 5000
    assert [message.body for message in messages(path)] == lines.read_bytes().splitlines()


def test_the_summary_for_programs_says_where_everything_went(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"zero", queue_id=1))
    lines = b'{"body": "a", "queue_id": 1}\n\n{"body": "b"}\n{"body": "c", "queue_id": 1}\n'

    outcome = run("put", path, "orders", "--json-lines", "--sync", "--json", stdin=lines)

    document = outcome.json
    stored = messages(path)
    assert document.pop("seconds") >= 0
    assert document == {
        "topic": "orders",
        "message_count": 3,
        "log_size": sum(message.size for message in stored[1:]),
        "first_msg_id": stored[1].msg_id,
        "last_msg_id": stored[3].msg_id,
        "queues": [
            {"queue_id": 0, "first_queue_offset": 0, "end_queue_offset": 1},
            {"queue_id": 1, "first_queue_offset": 1, "end_queue_offset": 3},
        ],
    }


def test_nothing_to_store_is_no_error(run, plain_store) -> None:
    outcome = run("put", plain_store(), "orders", stdin=b"")

    assert outcome.code == ExitCode.OK
    assert "nothing to store" in outcome.out


def test_a_line_that_is_no_json_is_named_and_those_before_it_stay(run, plain_store) -> None:
    path = plain_store()
    lines = b'{"body": "a"}\n\n{"body": "b"}\noops\n{"body": "c"}\n'

    outcome = run("put", path, "orders", "--json-lines", stdin=lines)

    assert outcome.code == ExitCode.REFUSED
    assert "line 4: not valid JSON" in outcome.err
    assert "2 messages before that were stored" in outcome.err
    assert [message.body for message in messages(path)] == [b"a", b"b"]


def test_a_message_that_the_store_refuses_is_named_and_those_before_it_stay(
    run, plain_store
) -> None:
    path = plain_store()
    lines = b"a\nb\n" + b"x" * (5 << 20) + b"\nc\n"

    outcome = run("put", path, "orders", stdin=lines)

    assert outcome.code == ExitCode.REFUSED
    assert "line 3: " in outcome.err
    assert "4194304" in outcome.err
    assert [message.body for message in messages(path)] == [b"a", b"b"]


def test_on_a_full_disk_the_error_counts_what_is_stored(run, plain_store, monkeypatch) -> None:
    path = plain_store(reput.Message("orders", b"first"))

    allocate = Disk.allocate

    def allocate_in_the_first_file(disk, descriptor, size, start=0):
        if not os.readlink(f"/proc/self/fd/{descriptor}").endswith(file_name(0)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(disk, descriptor, size, start)

    monkeypatch.setattr(Disk, "allocate", allocate_in_the_first_file)
    outcome = run("put", path, "orders", stdin=b"\n".join([b"x" * 1_000] * 300))

    stored_count = len(messages(path)) - 1
    assert outcome.code == ExitCode.REFUSED
    assert stored_count > 0
    assert f"{stored_count} messages before that were stored" in outcome.err


def test_a_topic_that_cannot_be_one_is_refused(run, plain_store) -> None:
    outcome = run("put", plain_store(), "../../etc", stdin="one\n")

    assert outcome.code == ExitCode.REFUSED
    assert "topic" in outcome.err
    assert "nothing was stored" in outcome.err


@pytest.mark.parametrize("pair", ["region", "=eu"])
def test_a_property_needs_its_name_and_its_value(run, plain_store, pair) -> None:
    outcome = run("put", plain_store(), "orders", "--property", pair, stdin="one\n")

    assert outcome.code == ExitCode.USAGE
    assert "NAME=VALUE" in outcome.err


@pytest.fixture
def log_file(run, tmp_path):
    """``log_file("--file-size", "1MiB")``: facts of the log file of a store made so."""

    def make(*options):
        outcome = run("put", tmp_path / "store", "t", "--create", *options, stdin=b"hello")
        assert outcome.code == ExitCode.OK, outcome.err
        (file,) = (tmp_path / "store" / "commitlog").iterdir()
        return file.stat()

    return make


def test_a_first_message_takes_little_of_the_disk(log_file) -> None:
    assert log_file().st_size < 256 << 10


def test_the_size_of_log_files_can_be_named(log_file, config) -> None:
    assert log_file("--file-size", "1MiB", "--config", config).st_size == 1 << 20


def test_the_size_of_a_broker_can_be_named_whatever_else_is(log_file, config) -> None:
    assert log_file("--like-rocketmq", "--config", config).st_size == 1 << 30


@pytest.mark.parametrize("options", [("--file-size", "2MiB"), ("--like-rocketmq",)])
def test_another_size_than_that_of_the_store_is_refused(run, log_file, tmp_path, options) -> None:
    log_file("--file-size", "1MiB")

    outcome = run("put", tmp_path / "store", "t", "--create", *options, stdin=b"hello")

    assert outcome.code == ExitCode.USAGE
    assert f"invalid value for {options[0]}: the store's files have 1048576 bytes" in outcome.err
    assert len(messages(tmp_path / "store")) == 1


def test_the_size_of_the_store_may_be_named_again(log_file, tmp_path) -> None:
    size = log_file("--file-size", "1MiB").st_size

    assert log_file("--file-size", "1MiB").st_size == size
    assert len(messages(tmp_path / "store")) == 2


def test_a_size_without_create_is_refused_with_a_step_that_works(run, log_file, tmp_path) -> None:
    log_file("--file-size", "1MiB")

    existing = run("put", tmp_path / "store", "t", "--file-size", "2MiB", stdin=b"hello")
    new = run("put", tmp_path / "new", "t", "--file-size", "2MiB", stdin=b"hello")

    assert existing.code == new.code == ExitCode.USAGE
    assert "leave it out" in existing.err
    assert "give --create" in new.err


@pytest.mark.parametrize("size", ["0", "16TiB"])
def test_a_size_that_no_file_can_have_names_the_option(run, tmp_path, size) -> None:
    outcome = run("put", tmp_path / "store", "t", "--create", "--file-size", size, stdin=b"hello")

    assert outcome.code == ExitCode.USAGE
    assert "invalid value for --file-size: an integer from 99 to 2147483647" in outcome.err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--like-rocketmq",),
        ("--file-size", "1MiB"),
        ("--create", "--like-rocketmq", "--file-size", "1MiB"),
        ("--create", "--file-size", "large"),
    ],
)
def test_a_size_that_would_count_for_nothing_is_refused(run, tmp_path, options) -> None:
    outcome = run("put", tmp_path / "store", "t", *options, stdin=b"hello")

    assert outcome.code == ExitCode.USAGE
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("text", ["not = [toml", "commitlog = 7"])
def test_a_wrong_configuration_is_told_beside_a_size(run, tmp_path, text) -> None:
    (tmp_path / "wrong.toml").write_text(text)

    outcome = run(
        *("put", tmp_path / "store", "t", "--create", "--like-rocketmq"),
        *("--config", tmp_path / "wrong.toml"),
        stdin=b"hello",
    )

    assert outcome.code == ExitCode.UNAVAILABLE
    assert len(outcome.err.splitlines()) == 1


def test_plugins_that_the_command_leaves_out_are_named_as_its_options(run, plugin_store) -> None:
    path = plugin_store("first", "notes")

    outcome = run("put", path, "t", "hello", "--plugin", "slow")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert "the store also uses first, notes; " in outcome.err
    assert "add --plugin first --plugin notes" in outcome.err
    assert f"`reput plugins {path} --remove first` removes a plugin" in outcome.err
    assert "forget" not in outcome.err


@pytest.mark.queues
def test_the_last_line_names_a_command_that_shows_what_was_stored(run, config, tmp_path) -> None:
    pytest.importorskip("reput_consumequeue")
    path = tmp_path / "s"
    small = ("--config", config, "--plugin", "consumequeue")
    run("put", path, "orders", "before", "--create", *small)
    for bodies in (["one"], ["two", "three", "four"]):
        stored = run("put", path, "orders", *bodies)

        *_, line = stored.out.splitlines()
        _, _, arguments = line.partition(" cat ")
        shown = run("cat", *shlex.split(arguments), "--format", "%s ")

        assert stored.code == shown.code == ExitCode.OK
        assert shown.out.split() == bodies
