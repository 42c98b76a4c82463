"""Messages as they travel: what is checked, compressed and added."""

from __future__ import annotations

import datetime as dt
import itertools
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.errors import MessageIllegalError, MessageTooLargeError, PropertiesSizeError
from reput.record import Message, parse_properties
from reput_client import ClientOptions
from reput_client.producer.outgoingmessage import Delay, OutgoingMessage, without_delay
from reput_client.remoting import decode_batch

_NOW = 1_700_000_000_000
_NAMES = st.text("abcXYZ_", min_size=1, max_size=5)


def outgoing(
    message: Message, more: dict[str, str] | None = None, **options: Any
) -> OutgoingMessage:
    keys = (f"KEY{number}" for number in itertools.count())
    return OutgoingMessage.of(message, ClientOptions(**options), keys.__next__, _NOW, more)


def batch(*messages: Message, **options: Any) -> OutgoingMessage:
    keys = (f"KEY{number}" for number in itertools.count())
    return OutgoingMessage.of_batch(messages, ClientOptions(**options), keys.__next__, _NOW)


def properties(found: OutgoingMessage) -> dict[str, str]:
    return parse_properties(found.properties.encode())


def test_a_unique_key_of_the_callers_stays() -> None:
    assert outgoing(Message("t", b"x", properties={"UNIQ_KEY": "MINE"})).msg_id == "MINE"


def test_encoded_properties_get_a_unique_key_too() -> None:
    found = outgoing(Message("t", b"x", properties=b"a\x01b\x02"))

    assert properties(found) == {"a": "b", "UNIQ_KEY": "KEY0"}


def test_large_bodies_are_compressed_and_say_so() -> None:
    body = b"abcd" * 1024

    small, large = outgoing(Message("t", body[:-1])), outgoing(Message("t", body))

    assert small.body == body[:-1]
    assert zlib.decompress(large.body) == body
    assert large.sys_flag == 0x301


def test_nothing_is_compressed_twice_or_at_level_0() -> None:
    body = b"abcd" * 1024

    assert outgoing(Message("t", body, sys_flag=1)).body == body
    assert outgoing(Message("t", body), compress_level=0).body == body


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TRAN_MSG", None])
def test_what_comes_to_its_topic_later_is_known(name: str | None) -> None:
    given = {} if name is None else {name: "true" if name == "TRAN_MSG" else "3"}

    assert outgoing(Message("t", b"x", properties=given)).is_for_later == (name is not None)


def test_how_often_a_retried_message_failed_goes_into_the_header() -> None:
    counts = {"RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "5"}

    retried = outgoing(Message("%RETRY%g", b"x", properties=counts))
    other = outgoing(Message("t", b"x", properties=counts))

    assert (retried.reconsume_times, retried.max_reconsume_times) == (3, 5)
    assert properties(retried) == {"UNIQ_KEY": "KEY0"}
    assert (other.reconsume_times, other.max_reconsume_times) == (0, None)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (Message("", b"x"), "topic"),
        (Message("a b", b"x"), "topic"),
        (Message("t" * 128, b"x"), "topic"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "topic"),
        (Message("t", b""), "body"),
        (Message("t", "text"), "body"),  # type: ignore[arg-type]
        (Message("t", b"x", properties={"a\x01": "b"}), "properties"),
        (Message("t", b"x", keys=["a b"]), "keys"),
    ],
)
def test_what_brokers_refuse_is_refused_here(message: Message, named: str) -> None:
    with pytest.raises(MessageIllegalError) as caught:
        outgoing(message)
    assert caught.value.field == named


def test_a_body_above_the_limit_is_refused_with_the_limit() -> None:
    with pytest.raises(MessageTooLargeError, match=r"limit 10, found 11"):
        outgoing(Message("t", b"x" * 11), max_message_size=10)


def test_properties_above_the_limit_are_refused() -> None:
    with pytest.raises(PropertiesSizeError, match="32767"):
        outgoing(Message("t", b"x", properties={"p": "x" * 32_767}))


# --------------------------------------------------------------------------- delays


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {}),
        ({"level": 3}, {"DELAY": "3"}),
        ({"delay": 1.5}, {"TIMER_DELAY_MS": "1500"}),
        ({"delay": dt.timedelta(minutes=1)}, {"TIMER_DELAY_MS": "60000"}),
        ({"delay": -1}, {"TIMER_DELAY_MS": "0"}),
        ({"deliver_at": 17}, {"TIMER_DELIVER_MS": "17"}),
        (
            {"deliver_at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC)},
            {"TIMER_DELIVER_MS": "1704067200000"},
        ),
    ],
)
def test_a_delay_is_a_property(asked: dict[str, Any], expected: dict[str, str]) -> None:
    assert Delay(**asked).properties() == expected


@pytest.mark.parametrize(
    "asked",
    [{"level": 0}, {"level": 1, "delay": 1}, {"deliver_at": dt.datetime(2024, 1, 1)}],  # noqa: DTZ001
)
def test_delays_that_mean_nothing_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|level 0"):
        Delay(**asked).properties()


def test_an_asked_delay_takes_the_place_of_the_messages_own() -> None:
    message = Message("t", b"x", properties={"DELAY": "5"})

    assert properties(outgoing(message, {"TIMER_DELAY_MS": "1"})) == {
        "TIMER_DELAY_MS": "1",
        "UNIQ_KEY": "KEY0",
    }
    assert without_delay(message).properties == {}
    assert without_delay(Message("t", b"x")).properties is None


# --------------------------------------------------------------------------- batches


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "one message at least"),
        ([Message("t", b"1"), Message("u", b"2")], "of one topic"),
        ([Message("%RETRY%g", b"1")], "retry topic"),
        ([Message("t", b"1", properties={"DELAY": "1"})], "delayed"),
        ([Message("t", b"1", properties={"TIMER_DELIVER_MS": "1"})], "delayed"),
        ([Message("t", b"1"), Message("t", b"2", properties={"WAIT": "false"})], "WAIT"),
        ([Message("t", b"1"), Message("t", b"")], "without a body"),
    ],
)
def test_messages_that_are_no_batch_are_refused(messages: list[Message], reason: str) -> None:
    with pytest.raises(MessageIllegalError, match=reason):
        batch(*messages)


def test_a_batch_above_the_limit_is_refused() -> None:
    with pytest.raises(MessageTooLargeError, match="several batches"):
        batch(*[Message("t", b"x" * 50)] * 3, max_message_size=100)


@given(
    st.lists(
        st.builds(
            Message,
            st.just("t"),
            st.binary(min_size=1, max_size=50),
            flag=st.integers(-(1 << 31), (1 << 31) - 1),
            properties=st.dictionaries(_NAMES, st.text("xyzü \x01", min_size=1), max_size=3),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_any_batch_is_read_as_it_was_given(messages: list[Message]) -> None:
    found = decode_batch(batch(*messages).body)

    assert [(each.body, each.flag) for each in found] == [(m.body, m.flag) for m in messages]
    for each, message in zip(found, messages, strict=True):
        assert isinstance(message.properties, dict)
        assert parse_properties(each.properties).items() >= message.properties.items()
