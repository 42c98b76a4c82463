"""``reput cat --last`` reads queues backward, and finds what a look at each message finds."""

from __future__ import annotations

import random

import pytest

import reput
from reput_testing import ManualClock
from reput_tools.cli.messages import queuereader

START = 1_700_000_000_000
COUNT = 3_000


@pytest.fixture
def path(tmp_path):
    """3,000 messages in four queues at random; one in a hundred is tagged rare."""
    clock, chance = ManualClock(START), random.Random(14)
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(
        tmp_path / "store", plugins=["consumequeue"], config=config, clock=clock
    ) as store:
        for number in range(COUNT):
            tags = "rare" if number % 100 == 50 else "usual"
            queue_id = chance.choice([0, 0, 0, 1, 2, 3])
            store.put(reput.Message("orders", b"%d" % number, queue_id=queue_id, tags=tags))
            clock.now += 1_000
    return tmp_path / "store"


@pytest.mark.parametrize(
    "options",
    [
        ("--last", "1"),
        ("--last", "7"),
        ("--last", "700"),
        ("--last", "4000"),
        ("--last", "12", "--tag", "rare"),
        ("--last", "40", "--tag", "rare"),
        ("--last", "5", "--until", f"@{START + 900_500}"),
        ("--last", "5", "--queue", "2"),
        ("--last", "5", "--from", f"@{START + (COUNT - 3) * 1_000}"),
        ("--until", f"@{START + 100_000}", "--from", f"@{START + 90_000}"),
    ],
)
def test_queues_and_the_log_tell_the_same(run, path, options) -> None:
    queued = run("cat", path, "orders", *options, "--json")
    scanned = run("cat", path, "orders", "--scan", *options, "--json")

    assert queued.code == 0
    assert queued.lines == scanned.lines
    assert queued.lines


def test_few_messages_are_read_for_the_last_ones(run, path, monkeypatch) -> None:
    read = []
    one = queuereader.QueueReader.read

    def noting(reader, *limit):
        found = one(reader, *limit)
        read.append(len(found))
        return found

    monkeypatch.setattr(queuereader.QueueReader, "read", noting)

    run("cat", path, "orders", "--last", "3")
    run("cat", path, "orders", "--until", f"@{START}")

    assert sum(read) <= 2 * 4 * 256


def test_reading_ends_where_later_messages_begin(run, path) -> None:
    outcome = run("cat", path, "orders", "--until", f"@{START + 5_000}", "--json")

    assert [line["body"] for line in outcome.lines] == ["0", "1", "2", "3", "4", "5"]


def test_grep_takes_a_topic_as_before_bodies_were_looked_into(run, path) -> None:
    outcome = run("grep", path, "orders", "--tag", "rare", "--json")
    both = run("grep", path, "orders", "--json")

    assert len(outcome.lines) == 30
    assert "'orders' is taken for the topic: say -t orders" in outcome.err
    assert both.code == 3
    assert "'orders' is also a topic" in both.err
