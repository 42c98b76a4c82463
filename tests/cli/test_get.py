from __future__ import annotations

import base64
import os

import pytest

import reput
from reput_tools.cli.kit.exitcodes import ExitCode


def test_every_field_is_what_java_put(run, golden_store, golden_rows) -> None:
    path = golden_store("basic")

    for row in golden_rows("basic", "put")[:40]:
        document = run("get", path, row["msg_id"], "--json").json

        body = document["body"].encode()
        if document["body_encoding"] == "base64":
            body = base64.b64decode(body)
        assert body.hex() == row["body"]
        same = (
            *("topic", "queue_id", "queue_offset", "physical_offset", "size", "msg_id", "flag"),
            *("store_timestamp", "born_timestamp", "sys_flag", "reconsume_times", "body_crc"),
            "prepared_transaction_offset",
        )
        assert {name: document[name] for name in same} == {name: row[name] for name in same}
        assert f"/{document['born_host']}" == row["born_host"]
        assert document["keys"] == (row["keys"] or "").split()
        assert (document["tags"] or "") == (row["tags"] or "")


def test_a_physical_offset_finds_the_same_message(run, golden_store, golden_rows) -> None:
    path = golden_store("basic")
    row = golden_rows("basic", "put")[1]

    by_offset = run("get", path, "--offset", row["physical_offset"], "--json").json
    by_id = run("get", path, row["msg_id"].lower(), "--json").json

    assert by_offset == by_id


def test_people_see_fields_properties_and_body(run, plain_store) -> None:
    path = plain_store(
        reput.Message("orders", b"first\nsecond \x1b[2J", tags="paid", properties={"region": "eu"})
    )

    outcome = run("get", path, "--offset", 0)

    assert outcome.code == ExitCode.OK
    assert "7F00000100002A9F0000000000000000" in outcome.out
    assert "the body matches it" in outcome.out
    assert "  region  eu\n" in outcome.out
    assert outcome.out.endswith("Body, 17 B\nfirst\nsecond \\x1b[2J\n")


def test_a_body_that_is_no_text_is_shown_in_hex(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", bytes(range(256)) * 2))

    outcome = run("get", path, "--offset", 0)

    assert "00000010  10 11 12 13 14 15 16 17  18 19" in outcome.out
    assert "256 B more: --body hex shows all of it" in outcome.out


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("text", "\\x00\\xff\n"),
        ("hex", "00000000  00 ff"),
        ("base64", "AP8=\n"),
    ],
)
def test_a_body_is_shown_as_asked_for(run, plain_store, form, shown) -> None:
    path = plain_store(reput.Message("orders", b"\x00\xff"))

    outcome = run("get", path, "--offset", 0, "--body", form)

    assert shown in outcome.out


@pytest.mark.parametrize("form", [("--raw",), ("--body", "raw"), ("--raw", "--body", "raw")])
def test_raw_writes_the_bytes_of_the_body_and_nothing_else(run, plain_store, form) -> None:
    body = os.urandom(5000)
    path = plain_store(reput.Message("orders", body))

    outcome = run("get", path, "--offset", 0, *form)

    assert outcome.raw == body


def test_what_is_not_there_says_what_the_log_holds(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x"))

    outcome = run("get", path, "7F00000100002A9F0000000000ABCDEF")

    assert outcome.code == ExitCode.NOT_FOUND
    assert outcome.out == ""
    assert "physical offset 11259375" in outcome.err
    assert "[0, " in outcome.err


def test_the_middle_of_a_message_is_not_a_message(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x" * 100))

    outcome = run("get", path, "--offset", 7)

    assert outcome.code == ExitCode.NOT_FOUND
    assert "no message begins there" in outcome.err


def test_a_key_finds_the_newest_message_that_has_it(run, plain_store) -> None:
    unique = "7F00000100002A139A1857C5D7A10000"  # as long as an offset message id
    path = plain_store(
        reput.Message("orders", b"1", keys="k a", properties={"UNIQ_KEY": unique}),
        reput.Message("orders", b"2", keys="b k"),
        reput.Message("other", b"3", keys="k"),
    )

    by_unique_key = run("get", path, unique, "--json")
    by_key = run("get", path, "k", "--topic", "orders", "--json")
    anywhere = run("get", path, "k", "--raw")

    assert (by_unique_key.json["body"], by_unique_key.err) == ("1", "")
    assert by_key.json["body"] == "2"
    assert "2 messages have the key 'k' in topic 'orders', this is the newest" in by_key.err
    assert f"`reput grep {path} -t orders --key k` lists them" in by_key.err
    assert anywhere.raw == b"3"
    assert "3 messages have the key 'k', this is the newest" in anywhere.err
    assert f"`reput grep {path} --key k` lists them" in anywhere.err


def test_a_key_that_no_message_has_is_not_found(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"1", keys="key"))

    outcome = run("get", path, "ke")
    number = run("get", path, "17")

    assert outcome.code == number.code == ExitCode.NOT_FOUND
    assert "no message has the key 'ke'" in outcome.err
    assert "a physical offset is given as --offset 17" in number.err
