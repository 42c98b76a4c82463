"""Bodies that a producer compressed: unpacked in every command, and as stored with --raw."""

from __future__ import annotations

import base64
import sys
import zlib

import pytest

import reput
from reput.record import unpack_body
from reput_tools.cli.kit.exitcodes import ExitCode

TEXT = b"hello, " * 40
ZLIB, LZ4 = 0x301, 0x101


@pytest.fixture
def path(plain_store):
    """A compressed message, and one that claims to be."""
    return plain_store(
        reput.Message("orders", zlib.compress(TEXT), sys_flag=ZLIB),
        reput.Message("orders", b"not packed", sys_flag=ZLIB),
    )


def test_cat_shows_what_the_producer_was_given(run, path) -> None:
    outcome = run("cat", path, "orders", "--scan")
    formatted = run("cat", path, "orders", "--scan", "--format", "%S %s", "--count", "1")

    assert outcome.code == ExitCode.OK
    assert TEXT.decode() in outcome.out
    assert "not packed" in outcome.out
    assert "orders/0@1: a body compressed with zlib cannot be unpacked" in outcome.err
    assert formatted.out == f"{len(TEXT)} {TEXT.decode()}\n"


def test_raw_shows_what_is_stored_and_complains_of_nothing(run, path) -> None:
    (packed, claimed) = run("cat", path, "orders", "--scan", "--raw", "--json").lines

    stored = base64.b64decode(packed["body"])
    assert unpack_body(stored, packed["sys_flag"]) == TEXT
    assert (claimed["body"], claimed["sys_flag"]) == ("not packed", ZLIB)
    assert run("cat", path, "orders", "--scan", "--raw").err == ""


def test_json_says_what_the_body_is_and_was(run, path) -> None:
    (packed, claimed) = run("cat", path, "orders", "--scan", "--json").lines

    assert packed["body"] == TEXT.decode()
    assert (packed["sys_flag"], packed["compression"], packed["body_size"]) == (0, "zlib", 280)
    assert (claimed["body"], claimed["sys_flag"]) == ("not packed", ZLIB)


@pytest.mark.parametrize("raw", [(), ("--raw",)])
def test_a_copy_by_json_is_the_same_message(run, path, plain_store, raw) -> None:
    lines = run("cat", path, "orders", "--scan", "--json", "-n", "1", *raw).raw
    copy = plain_store(name="copy")

    done = run("put", copy, "orders", "--json-lines", stdin=lines)

    with reput.open(copy, "r", plugins=[]) as store:
        message = store.get(0)
    assert unpack_body(message.body, message.sys_flag) == TEXT
    assert message.compression == ("zlib" if raw else None)
    assert ("stored as they were unpacked" in done.err) == (not raw)


def test_get_says_how_the_body_is_stored(run, path) -> None:
    shown = run("get", path, "--offset", 0)
    written = run("get", path, "--offset", 0, "--body", "raw")
    stored = run("get", path, "--offset", 0, "--raw")
    document = run("get", path, "--offset", 0, "--json").json

    assert f"Body, {len(TEXT)} B, stored as {len(stored.raw)} B of zlib" in shown.out
    assert written.raw == TEXT
    assert zlib.decompress(stored.raw) == TEXT
    assert (document["body"], document["body_size"]) == (TEXT.decode(), len(TEXT))


@pytest.mark.parametrize(
    "arguments", [("cat", "orders", "--scan"), ("grep", "hello"), ("get", "--offset", "0")]
)
def test_a_missing_library_is_named_and_raw_does_without(
    run, plain_store, monkeypatch, arguments
) -> None:
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    path = plain_store(reput.Message("orders", b"hello", sys_flag=LZ4))
    command, *others = arguments

    outcome = run(command, path, *others)
    raw = run(command, path, *others, "--raw")

    assert outcome.code == ExitCode.UNAVAILABLE
    assert (
        "pip install './core[compression]' (in a checkout of reput), "
        "or --raw leaves bodies as stored" in outcome.err
    )
    assert (raw.code, "hello" in raw.out) == (ExitCode.OK, True)


def test_many_bodies_that_are_not_packed_are_not_told_one_by_one(run, plain_store) -> None:
    message = reput.Message("orders", b"not packed", sys_flag=ZLIB)
    path = plain_store(*[message] * 50)

    outcome = run("cat", path, "orders", "--scan")

    assert len(outcome.out.splitlines()) == 50
    assert len(outcome.err.splitlines()) == 5
    assert "further ones are not told" in outcome.err
