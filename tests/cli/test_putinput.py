from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_tools.cli.messages import putinput
from reput_tools.cli.messages.putinput import Defaults, InputError, line_batches, message_of_json

DEFAULTS = Defaults("orders", 2, "paid", ("k",), {"region": "eu"})


class Trickle(io.RawIOBase):
    """A stream that gives the pieces that it was made of, one a read."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(pieces)

    def read1(self, size: int) -> bytes:
        return next(self._pieces, b"")


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=20))
def test_lines_are_the_same_however_they_arrive(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    if expected[-1] == b"":
        expected.pop()

    lines = [line for batch in line_batches(Trickle(pieces)) for line in batch]

    assert lines == expected


def test_a_line_is_handed_on_before_the_next_one_comes() -> None:
    batches = line_batches(Trickle([b"one\ntw", b"o\n", b"three"]))

    assert list(batches) == [[b"one"], [b"two"], [b"three"]]


def test_a_line_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(putinput, "_LINE_SIZE_MAX", 100)

    with pytest.raises(InputError, match="longer than 100 bytes"):
        list(line_batches(Trickle([b"x" * 60] * 3)))


def test_what_json_does_not_say_is_as_on_the_command_line() -> None:
    message = message_of_json(b'{"body": "hello"}', DEFAULTS)

    assert (message.topic, message.body, message.queue_id) == ("orders", b"hello", 2)
    assert (message.tags, message.keys) == ("paid", ["k"])
    assert message.properties == {"region": "eu"}


def test_json_says_everything_that_a_producer_may_say() -> None:
    message = message_of_json(
        b'{"body": "AP8=", "body_encoding": "base64", "tags": "t", "keys": ["a", "b"],'
        b' "properties": {"x": "1"}, "queue_id": 7, "flag": 5, "sys_flag": 1,'
        b' "born_timestamp": 1700000000000, "born_host": "[::1]:99", "reconsume_times": 3}',
        DEFAULTS,
    )

    assert message.body == b"\x00\xff"
    assert (message.tags, message.keys, message.queue_id) == ("t", "a b", 7)
    assert message.properties == {"region": "eu", "x": "1"}
    assert (message.flag, message.sys_flag, message.reconsume_times) == (5, 1, 3)
    assert (message.born_timestamp, message.born_host) == (1_700_000_000_000, ("::1", 99))


def test_tags_and_keys_among_the_properties_are_not_written_twice() -> None:
    message = message_of_json(
        b'{"tags": "t", "keys": ["k1"], "properties": {"TAGS": "t", "KEYS": "k1", "a": "b"}}',
        Defaults("orders", 0, None, (), {}),
    )

    assert (message.tags, message.keys, message.properties) == ("t", "k1", {"a": "b"})


def test_an_empty_line_is_no_message() -> None:
    assert message_of_json(b" \r", DEFAULTS) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"hello", "not valid JSON"),
        (b"[1]", "a JSON object expected, found list"),
        (b'{"bdoy": "x"}', "unknown member 'bdoy'; known: body, body_encoding"),
        (b'{"body": 5}', "body: a string expected"),
        (b'{"body": "%%", "body_encoding": "base64"}', "body: not base64"),
        (b'{"body": "", "body_encoding": "latin-1"}', "body_encoding: utf-8, base64 or hex"),
        (b'{"queue_id": "3"}', "queue_id: an integer expected"),
        (b'{"queue_id": true}', "queue_id: an integer expected"),
        (b'{"tags": 1}', "tags: a string expected"),
        (b'{"keys": [1]}', "keys: a string or an array of strings"),
        (b'{"properties": {"a": 1}}', "property 'a': a string expected"),
        (b'{"properties": []}', "properties: an object expected"),
        (b'{"born_host": "nowhere"}', "born_host: address:port expected"),
        (b'{"body": "\\ud800"}', "body: not utf-8"),
    ],
)
def test_a_line_that_is_no_message_says_why(line: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        message_of_json(line, DEFAULTS)
