"""Counts are those of a plain loop over all messages."""

from __future__ import annotations

import collections
import json

import pytest
from click.testing import CliRunner
from sparkstores import fill, messages_of

import reput
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command

pytest.importorskip("pyspark")

from reput_spark import read
from reput_spark.command import engines
from reput_spark.jobs.stats import COLUMNS, QUESTIONS, stats

SPLIT = 1 << 16
HOUR = 3_600_000


class Clock:
    """Goes on by 20 minutes a message."""

    now = 1_700_000_000_000

    def __call__(self):
        self.now += 1_200_000
        return self.now


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("stats") / "store"
    clock = Clock()
    config = {"commitlog": {"file_size": 16_384}}
    with reput.open(root, plugins=(), config=config, clock=clock) as store:
        for number in range(900):
            store.put(
                reput.Message(
                    f"topic-{number % 4}",
                    b"x" * (number % 50),
                    queue_id=number % 3,
                    tags=("A", "B", None)[number % 3],
                    keys=[f"often-{number % 5}", f"once-{number}"],
                    born_timestamp=clock.now - number % 700,
                )
            )
    return root


@pytest.fixture(scope="module")
def counted(spark, made):
    """The rows of each table."""
    tables = stats(read(spark, made, columns=COLUMNS, split_size=SPLIT))
    found = {name: [row.asDict() for row in table.collect()] for name, table in tables.items()}
    spark.catalog.clearCache()
    return found


def expected(root, key):
    """Messages and bytes of records, by what ``key`` says of a message."""
    found = collections.defaultdict(lambda: [0, 0])
    for message in messages_of(root):
        row = found[key(message)]
        row[0] += 1
        row[1] += message.size
    return {name: tuple(row) for name, row in found.items()}


def rows_of(table, *names):
    return {tuple(row[name] for name in names): (row["messages"], row["bytes"]) for row in table}


@pytest.mark.parametrize(
    ("question", "names", "key"),
    [
        ("topics", ["topic"], lambda each: (each.topic,)),
        ("queues", ["topic", "queue_id"], lambda each: (each.topic, each.queue_id)),
        ("tags", ["topic", "tags"], lambda each: (each.topic, each.tags)),
    ],
)
def test_messages_and_bytes_are_those_of_a_plain_loop(made, counted, question, names, key):
    assert rows_of(counted[question], *names) == expected(made, key)
    messages = [row["messages"] for row in counted[question]]
    assert messages == sorted(messages, reverse=True)


def test_hours_are_in_order_and_in_utc(made, counted):
    found = [(int(row["hour"].timestamp() * 1_000), row["messages"]) for row in counted["hours"]]

    wanted = expected(made, lambda each: each.store_timestamp // HOUR * HOUR)
    assert found == [(hour, row[0]) for hour, row in sorted(wanted.items())]
    assert len(found) > 250


def test_delays_are_counted_by_powers_of_two(made, counted):
    wanted = collections.Counter(
        (each.topic, each.store_timestamp - each.born_timestamp) for each in messages_of(made)
    )

    for row in counted["delays"]:
        inside = sum(
            number
            for (topic, delay), number in wanted.items()
            if topic == row["topic"] and row["from_ms"] <= delay < row["below_ms"]
        )
        assert inside == row["messages"] > 0
    assert sum(row["messages"] for row in counted["delays"]) == 900
    for row in counted["topics"]:
        delays = [
            delay for (name, delay), n in wanted.items() for _ in range(n) if name == row["topic"]
        ]
        assert row["mean_delay_ms"] == pytest.approx(sum(delays) / len(delays))


def test_keys_are_counted_all_and_the_most_frequent_come_first(made, counted):
    wanted = collections.Counter(
        (each.topic, key) for each in messages_of(made) for key in each.keys
    )

    found = {(row["topic"], row["key"]): row["messages"] for row in counted["keys"]}

    assert found == wanted
    assert {row["key"] for row in counted["keys"][:20]} == {f"often-{each}" for each in range(5)}


def test_messages_stored_before_they_were_born_are_a_row_of_their_own(spark, tmp_path):
    with reput.open(tmp_path, plugins=(), clock=lambda: 1_000_000) as store:
        for born in (2_000_000, 1_000_000, 999_999, 999_993):
            store.put(reput.Message("T", b"", born_timestamp=born))

    table = stats(read(spark, tmp_path, columns=COLUMNS))["delays"].collect()

    assert [(row.from_ms, row.below_ms, row.messages) for row in table] == [
        (None, 0, 1),
        (0, 1, 1),
        (1, 2, 1),
        (4, 8, 1),
    ]


# --------------------------------------------------------------------------- the command


@pytest.fixture
def run(lasting, monkeypatch):
    """Runs the command in the session of all tests."""
    monkeypatch.setattr(engines, "session_of", lambda *_, **__: lasting)
    return lambda *words: CliRunner().invoke(command, ["spark", "stats", *map(str, words)])


def test_the_command_prints_tables_or_json(run, made, counted):
    shown = run(made)
    document = run(made, "--json", "--top", 3)

    assert (shown.exit_code, document.exit_code) == (0, 0), shown.output
    assert "topic-3" in shown.stdout
    assert all(f"{name}: {about}" in shown.stdout for name, about in QUESTIONS.items())
    assert "more; --json shows all" in shown.stdout
    found = json.loads(document.stdout)
    assert found["message_count"] == 900
    assert found["topics"] == counted["topics"]
    assert found["keys"] == counted["keys"][:3]
    assert found["hours"][0]["hour"] % HOUR == 0


def test_the_command_refuses_damage_or_leaves_it_out(run, tmp_path):
    fill(tmp_path / "store")
    places = [message.physical_offset for message in messages_of(tmp_path / "store")]
    with open(tmp_path / "store" / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(places[3] + 4)
        file.write(b"\xff")

    refused = run(tmp_path / "store")
    left = run(tmp_path / "store", "--corrupt", "skip", "--json")

    assert refused.exit_code == ExitCode.DAMAGED
    assert refused.stdout == ""
    assert "commitlog" in refused.stderr
    assert "REPUT_" not in refused.stderr
    found = json.loads(left.stdout)
    assert (found["message_count"], found["damage_count"]) == (len(places) - 1, 1)
    assert left.exit_code == ExitCode.DAMAGED


def test_the_command_says_what_a_path_without_a_log_is(run, tmp_path):
    refused = run(tmp_path)

    assert refused.exit_code == ExitCode.NOT_FOUND
    assert "no log there" in refused.stderr
