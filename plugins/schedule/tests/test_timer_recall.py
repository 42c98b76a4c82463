"""Handles by which messages are recalled, and the messages that do it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timerstores import TimerStore

from reput_schedule.api.recall import RecallHandle, decode_handle, encode_handle, recall_messages

WORDS = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)


def test_a_handle_is_base64_of_its_parts():
    handle = encode_handle("TopicTest", "broker-a", 1_700_000_005_000, "7F0000010000")

    text = "v1 TopicTest broker-a 1700000005000 7F0000010000"
    assert handle == base64.urlsafe_b64encode(text.encode()).decode()
    assert len(handle) % 4 == 0


@given(WORDS, WORDS, st.integers(0, 10**18 - 1), WORDS)
def test_handles_come_back(topic, broker_name, time, key):
    handle = encode_handle(topic, broker_name, time, key)

    assert decode_handle(handle) == RecallHandle(topic, broker_name, time, key)


@pytest.mark.parametrize(
    "text", ["", "%%%", "djEgYSBi", base64.urlsafe_b64encode(b"v1 a b c d").decode(), "é"]
)
def test_what_is_no_handle_says_so(text):
    with pytest.raises(ValueError, match="is not a recall handle"):
        decode_handle(text)


@pytest.mark.parametrize("part", ["", "a b"])
def test_parts_that_would_not_come_back_are_refused(part):
    with pytest.raises(ValueError, match="recall handle"):
        encode_handle(part, "broker", 5, "key")


@pytest.mark.parametrize("forms", [slice(0, 2), slice(0, 1), slice(1, 2)])
def test_a_recalled_message_never_comes(forms, tmp_path):
    """Of the two messages a broker of 5.3 writes the first, one of another release the second."""
    with TimerStore(tmp_path / "store") as store:
        time = store.clock() + 5000
        store.put_at("key", time)
        handle = encode_handle("Topic", "broker", time, "key")
        messages = recall_messages(decode_handle(handle))
        assert [each.properties["TIMER_DEL_UNIQKEY"] for each in messages] == ["Topic+key", "key"]
        store.store.put_many(messages[forms])
        store.run_until(time + 5000)

        assert store.bodies() == []
        assert store.timer.report()["cancelled"] == 1
