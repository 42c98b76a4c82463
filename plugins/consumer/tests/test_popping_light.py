"""Pop from light queues, which list messages of other topics and have no retry topics."""

from __future__ import annotations

import attrs
import pytest
from groupstores import bodies

from reput import Message
from reput_consumer import PopRequest, Start

LIGHT = "%LMQ%$orders$a"
REQUEST = PopRequest(
    group="g", topic=LIGHT, start=Start("earliest"), is_ordered=True, invisible_ms=30_000
)


@pytest.fixture
def at(steps):
    found = steps()
    found.store.close()
    found.open(more_config={"commitlog": {"max_light_queues": 10}})
    return found


def put(at, *texts):
    at.put(*texts, properties={"INNER_MULTI_DISPATCH": LIGHT})


def pop(at, **options):
    return at.plugin.popper.pop(attrs.evolve(REQUEST, **options))


def test_a_failed_message_of_a_light_queue_comes_again_in_its_place(at):
    put(at, "1", "2")
    popped = pop(at, max_count=1)
    at.work_for(30_000)

    again = pop(at)

    assert bodies([each.view for each in popped]) == ["1"]
    assert [(each.view.body, each.attempt_count) for each in again] == [(b"1", 2), (b"2", 1)]
    assert all(at.plugin.popper.ack("g", LIGHT, each.handle) for each in again)
    assert at.offset(topic=LIGHT) == 2
    assert not any(LIGHT in name for name in at.plugin.topics.names())


def test_requests_of_one_nonce_have_handles_of_one_nonce(at):
    put(at, "1")
    nonce = at.plugin.popper.new_nonce()

    (popped,) = pop(at, nonce=nonce)

    assert popped.handle.nonce == nonce
    assert at.plugin.popper.ack("g", LIGHT, popped.handle)


def test_a_request_that_waits_for_a_light_queue_is_woken(at):
    woken = []
    waiting = at.plugin.popper.waiting
    token = waiting.begin("g", [LIGHT], lambda: woken.append("light"))
    waiting.begin("g", ["%LMQ%$orders$b"], lambda: woken.append("other"))
    put(at, "1")
    assert woken == ["light"]

    waiting.end(token)
    put(at, "2")

    assert (woken, waiting.light_count) == (["light"], 1)


@pytest.mark.parametrize("texts", [[], ["1"]])
def test_an_offset_beyond_a_light_queue_is_lowered_at_opening(at, caplog, texts):
    put(at, *texts)
    at.store.close()
    path = at.root / "config" / "consumerOffset.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{{"offsetTable":{{"{LIGHT}@g":{{0:7}}}}}}')
    at.open(more_config={"commitlog": {"max_light_queues": 10}})

    put(at, "2", "3")

    assert bodies([each.view for each in pop(at)]) == ["2", "3"]
    assert f"queue={LIGHT}/0 offset=7 lowered_to={len(texts)}" in caplog.text


def test_a_light_queue_that_nothing_was_put_to_is_not_begun(at):
    assert pop(at) == []
    assert at.offset(topic=LIGHT) is None


def test_a_deleted_topic_takes_its_lite_topics_with_it(at):
    put(at, "1", "2")
    (popped, _) = pop(at)
    assert at.plugin.popper.ack("g", LIGHT, popped.handle)

    assert at.plugin.delete_topic("orders")

    assert at.offset(topic=LIGHT) is None
    assert pop(at) == []
    put(at, "3")
    assert [each.view.body for each in pop(at)] == [b"3"]
    at.store.close()
    at.open(more_config={"commitlog": {"max_light_queues": 10}})
    assert [each.view.body for each in pop(at)] == [b"3"]


def test_one_note_hides_all_lite_topics_also_those_that_come_to_their_queue_later(at):
    for name in "bcd":
        at.put("1", properties={"INNER_MULTI_DISPATCH": f"%LMQ%$orders${name}"})
    at.store.put(Message("orders", b"2", properties={"INNER_MULTI_DISPATCH": LIGHT}))

    assert at.plugin.delete_topic("orders")

    note = (at.root / "reput/consumer/deletedTopics.json").read_text()
    assert '"counter":2' in note.replace(" ", "")
    put(at, "3")
    assert [each.view.body for each in pop(at)] == [b"3"]
