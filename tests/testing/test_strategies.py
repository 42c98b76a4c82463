"""What the strategies draw is what they promise."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from reput.record import Encoder, check_topic, encode_property_text, parse_properties
from reput_testing.logs import strategies


@given(strategies.messages())
def test_every_message_is_one_that_a_store_accepts(message):
    Encoder().encode(message, 0, 0, 1_700_000_000_000)


@given(strategies.topics())
def test_topics_are_names_that_a_store_accepts(topic):
    check_topic(topic)


@given(strategies.messages(plain=True))
def test_properties_come_back_as_they_were_given(message):
    found = parse_properties(encode_property_text(message))

    given_properties = {name: value for name, value in (message.properties or {}).items() if value}
    assert {name: found[name] for name in given_properties} == given_properties
    assert found.get("TAGS", "") == (message.tags or "")
    assert found.get("KEYS", "").split(" ") == (list(message.keys or []) or [""])


@given(strategies.bodies(max_size=40))
def test_bodies_keep_to_their_size(body):
    assert len(body) <= 40


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.logs(min_size=2, max_size=5))
def test_logs_keep_to_their_size(log):
    assert 2 <= len(log) <= 5
