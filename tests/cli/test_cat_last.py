"""``reput cat --last`` and ``--until`` from the log; from queues in the tests of consumequeue."""

from __future__ import annotations

import pytest

import reput
from reput_testing import ManualClock
from reput_tools.cli.kit.exitcodes import ExitCode

START = 1_700_000_000_000


@pytest.fixture
def path(tmp_path):
    """Message ``i`` is stored at ``START + i`` seconds, in queue ``i % 3``, tagged odd or even."""
    clock = ManualClock(START)
    config = {"commitlog": {"file_size": 1 << 16}}
    with reput.open(tmp_path / "store", plugins=[], config=config, clock=clock) as store:
        for number in range(20):
            tags = ("even", "odd")[number % 2]
            store.put(reput.Message("orders", b"%d" % number, queue_id=number % 3, tags=tags))
            clock.now += 1_000
    return tmp_path / "store"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--last", "3"), [17, 18, 19]),
        (("--last", "0"), []),
        (("--last", "100"), list(range(20))),
        (("--last", "2", "--queue", "1"), [16, 19]),
        (("--last", "2", "--tag", "odd"), [17, 19]),
        (("--until", f"@{START + 2_500}"), [0, 1, 2]),
        (("--until", f"@{START + 3_000}", "--from", f"@{START + 2_000}"), [2, 3]),
        (("--until", f"@{START + 5_000}", "--last", "2"), [4, 5]),
        (("--until", f"@{START + 9_000}", "--last", "2", "--tag", "even"), [6, 8]),
        (("--until", f"@{START - 1}"), []),
        (("-t", "orders", "--last", "1"), [19]),
    ],
)
def test_the_end_of_a_topic_is_read(run, path, options, expected) -> None:
    topic = () if "-t" in options else ("orders",)

    outcome = run("cat", path, *topic, "--scan", *options, "--json")

    assert (outcome.code, [int(line["body"]) for line in outcome.lines]) == (0, expected)


def test_two_topics_are_refused(run, path) -> None:
    outcome = run("cat", path, "orders", "--scan", "-t", "odd")

    assert outcome.code == ExitCode.USAGE
    assert "topic" in outcome.err


def test_without_a_topic_the_line_says_where_to_find_one(run, path) -> None:
    outcome = run("cat", path, "--scan")

    assert outcome.code == ExitCode.USAGE
    assert "`reput info PATH` lists the topics" in outcome.err
