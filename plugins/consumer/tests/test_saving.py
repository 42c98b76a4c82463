"""When offsets are in the file: the start before a message, and all else after one interval."""

from __future__ import annotations

import logging

import pytest
from groupstores import Steps, bodies

from reput_consumer import MessageQueue
from reput_tools.brokerfiles import decode

INTERVAL_MS = 5_000


def saved(at: Steps, group: str = "g", topic: str = "orders") -> dict[str, int]:
    """What the file says of a group's queues."""
    path = at.root / "config" / "consumerOffset.json"
    table = decode(path.read_bytes())["offsetTable"] if path.exists() else {}
    return {str(queue_id): offset for queue_id, offset in table.get(f"{topic}@{group}", {}).items()}


# ------------------------------------------------------------------ where a group begins


@pytest.mark.parametrize("options", [{}, {"ordered": True}])
def test_the_start_of_a_new_group_is_saved_before_its_first_message(at, options):
    at.put("1", "2")

    with at.consumer(start="latest", **options):
        assert saved(at) == {"0": 2}


def test_the_start_of_a_queue_that_came_later_is_saved_before_its_first_message(at):
    at.put("1")
    with at.consumer(start="latest") as consumer:
        at.put("2", queue=3)
        at.store.work()

        assert saved(at) == {"0": 1, "1": 0, "2": 0, "3": 0}  # the topic has grown
        assert consumer.next(0).body == b"2"


def test_a_consumer_that_saves_by_hand_has_a_start_too(at):
    at.put("1")

    with at.plugin.pull_consumer("g", "orders", auto_commit=False):
        assert saved(at) == {"0": 1}


def test_a_reader_that_assigns_queues_and_saves_by_hand_leaves_no_trace(at):
    at.put("1")

    with at.plugin.pull_consumer("g", auto_commit=False) as consumer:
        consumer.assign([MessageQueue("orders", "broker-a", 0)])
        at.work_for(20_000)

    assert saved(at) == {}


def test_where_a_start_cannot_be_saved_no_message_is_handed_out(at, caplog, monkeypatch):
    at.put("1")
    save = type(at.plugin.port).save
    fails = True

    def failing(port):
        if fails:
            raise OSError(28, "No space left on device")
        return save(port)

    monkeypatch.setattr(type(at.plugin.port), "save", failing)
    with caplog.at_level(logging.WARNING), at.consumer(start="latest") as consumer:
        at.put("2")
        assert consumer.next(0) is None
        fails = False
        at.work_for(3_000)

        assert saved(at) == {"0": 1}
        assert consumer.next(0).body == b"2"
    assert "queues not read yet" in caplog.text


def test_what_could_not_be_saved_durably_is_saved_later(at, monkeypatch):
    at.put("1", "2")
    port, queue = at.plugin.port, MessageQueue("orders", "broker-a", 0)
    save = type(port).save

    def failing(port):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(port), "save", failing)
    with pytest.raises(OSError, match="No space"):
        port.commit("g", {queue: 1}, durable=True)
    monkeypatch.setattr(type(port), "save", save)
    at.work_for(INTERVAL_MS)

    assert saved(at) == {"0": 1}


# ------------------------------------------------------------------ how long the others wait


def test_a_consumer_that_is_closed_meanwhile_changes_nothing_about_that(at):
    at.put("1", "2")
    with at.consumer() as consumer:
        assert bodies(consumer) == ["1", "2"]
        at.work_for(INTERVAL_MS - 1_000)

    at.work_for(1_000)

    assert saved(at) == {"0": 2}


def test_neither_does_a_queue_that_is_given_up_meanwhile(at):
    at.put("1", "2")
    with at.consumer(name="b") as consumer:
        assert bodies(consumer) == ["1", "2"]
        at.work_for(INTERVAL_MS - 1_000)
        with at.consumer(name="a") as other:
            assert "orders" in {queue.topic for queue in other.queues}

            at.work_for(1_000)

            assert saved(at) == {"0": 2}


def test_offsets_are_saved_in_time_although_the_clock_was_set_back(at):
    at.put("1", "2")

    with at.consumer() as consumer:
        assert bodies(consumer) == ["1", "2"]
        at.clock.advance(-86_400_000)
        at.work_for(INTERVAL_MS)
        assert saved(at) == {"0": 2}


def test_members_whose_time_comes_one_after_the_other_are_saved_together(at):
    for queue in range(4):
        at.put("x", queue=queue)
    document = at.plugin.port.offsets.document
    counter = lambda: document.read()["dataVersion"]["counter"]  # noqa: E731
    consumers = [at.consumer(name=name) for name in "abcd"]
    at.work_for(3 * INTERVAL_MS)
    before = counter()

    for consumer in consumers:
        bodies(consumer)
        at.work_for(1_000)
    at.work_for(INTERVAL_MS)

    assert saved(at) == {str(queue): 1 for queue in range(4)}
    assert counter() - before == 1
    for consumer in consumers:
        consumer.close()
