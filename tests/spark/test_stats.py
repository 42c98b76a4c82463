"""Counts are those of a plain loop over all messages."""

from __future__ import annotations

import collections
import json
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner
from sparkstores import fill, forged_store, messages_of

import reput
from reput.log import plan_splits
from reput_cli.root import reput as command
from reput_rebuild.engine import LocalEngine

pytest.importorskip("pyarrow")

from reput_spark import SparkReputError
from reput_spark.jobs import stats
from reput_spark.jobs.stats import QUESTIONS
from reput_spark.jobs.stats import stats as count
from reput_spark.jobs.stats_page import page

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
    config = {"commitlog": {"file_size": 16_384, "preallocate": False}}
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
def counted(made):
    return count(str(made), LocalEngine(1), split_size=SPLIT)


def expected(root, key):
    """Messages, bytes of records, bytes of bodies, by what ``key`` says of a message."""
    found = collections.defaultdict(lambda: [0, 0, 0])
    for message in messages_of(root):
        row = found[key(message)]
        row[0] += 1
        row[1] += message.size
        row[2] += len(message.body)
    return {name: tuple(row) for name, row in found.items()}


def rows_of(table, *names):
    return {
        tuple(row[name] for name in names): (row["messages"], row["bytes"], row["body_bytes"])
        for row in table.to_pylist()
    }


@pytest.mark.parametrize(
    ("question", "names", "key"),
    [
        ("topics", ["topic"], lambda each: (each.topic,)),
        ("queues", ["topic", "queue_id"], lambda each: (each.topic, each.queue_id)),
        ("tags", ["topic", "tags"], lambda each: (each.topic, each.tags)),
    ],
)
def test_messages_and_bytes_are_those_of_a_plain_loop(made, counted, question, names, key):
    assert rows_of(counted.tables[question], *names) == expected(made, key)
    messages = counted.tables[question]["messages"].to_pylist()
    assert messages == sorted(messages, reverse=True)


def test_hours_are_in_order_and_in_utc(made, counted):
    found = [
        (int(row["hour"].timestamp() * 1_000), row["messages"])
        for row in counted.tables["hours"].to_pylist()
    ]

    wanted = expected(made, lambda each: each.store_timestamp // HOUR * HOUR)
    assert found == [(hour, row[0]) for hour, row in sorted(wanted.items())]
    assert len(found) > 250


def test_delays_are_counted_by_powers_of_two(made, counted):
    wanted = collections.Counter(
        (each.topic, each.store_timestamp - each.born_timestamp) for each in messages_of(made)
    )
    table = counted.tables["delays"].to_pylist()

    for row in table:
        inside = sum(
            number
            for (topic, delay), number in wanted.items()
            if topic == row["topic"] and row["from_ms"] <= delay < row["below_ms"]
        )
        assert inside == row["messages"] > 0
    assert sum(row["messages"] for row in table) == 900
    means = {row["topic"]: row["mean_delay_ms"] for row in counted.tables["topics"].to_pylist()}
    for topic, mean in means.items():
        delays = [delay for (name, delay), n in wanted.items() for _ in range(n) if name == topic]
        assert mean == pytest.approx(sum(delays) / len(delays))


def test_the_most_frequent_keys_come_first(counted):
    top = counted.tables["keys"].to_pylist()[:20]

    assert {row["key"] for row in top} == {f"often-{number}" for number in range(5)}
    assert {row["messages"] for row in top} == {45}
    assert all(row["messages_at_most"] == row["messages"] for row in top)


def test_keys_that_are_dropped_are_told_by_a_bound(made, monkeypatch):
    monkeypatch.setattr(stats, "KEYS_PER_SPLIT", 7)

    found = count(str(made), LocalEngine(1), split_size=SPLIT).tables["keys"].to_pylist()

    assert found
    for row in found:
        assert row["messages"] <= (45 if row["key"].startswith("often") else 1)
        assert row["messages_at_most"] >= (45 if row["key"].startswith("often") else 1)
    assert any(row["messages_at_most"] > row["messages"] for row in found)


def test_messages_stored_before_they_were_born_are_a_row_of_their_own(tmp_path):
    with reput.open(tmp_path, plugins=(), clock=lambda: 1_000_000) as store:
        store.put(reput.Message("T", b"", born_timestamp=2_000_000))
        store.put(reput.Message("T", b"", born_timestamp=1_000_000))

    table = count(str(tmp_path), LocalEngine(1)).tables["delays"]

    assert [(row["from_ms"], row["below_ms"], row["messages"]) for row in table.to_pylist()] == [
        (None, 0, 1),
        (0, 1, 1),
    ]


def test_an_empty_log_has_empty_tables(tmp_path):
    with reput.open(tmp_path, plugins=()) as store:
        store.put(reput.Message("T", b""))
    log = next((tmp_path / "commitlog").iterdir())
    log.write_bytes(bytes(log.stat().st_size))

    found = count(str(tmp_path), LocalEngine(1))

    assert found.message_count == 0
    assert all(table.num_rows == 0 for table in found.tables.values())
    assert "Nothing to show" in page(found, "empty")


def test_damage_is_refused_or_left_out(tmp_path):
    fill(tmp_path / "store")
    places = [message.physical_offset for message in messages_of(tmp_path / "store")]
    with open(tmp_path / "store" / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(places[3] + 4)
        file.write(b"\xff")

    with pytest.raises(SparkReputError, match=r"REPUT_DAMAGED.*split 0 .*commitlog.*corrupt=skip"):
        count(str(tmp_path / "store"), LocalEngine(1))

    left = count(str(tmp_path / "store"), LocalEngine(1), corrupt="skip")
    assert (left.message_count, left.damage_count) == (len(places) - 1, 1)


def test_a_forged_body_fails_closed_and_counts_once_where_damage_is_left_out(tmp_path):
    """Its bytes are those of a sound record, and a split begins there."""
    placed, forged = forged_store(tmp_path / "store", before=600)
    with reput.open(tmp_path / "store", "r", plugins=()) as store:
        sizes = range(1 << 16, 1 << 18, 40)
        size = next(
            size
            for size in sizes
            if any(split.start_offset == forged for split in plan_splits(store.log, size))
        )

    with pytest.raises(SparkReputError, match=r"REPUT_DAMAGED.*read the log in one piece"):
        count(str(tmp_path / "store"), LocalEngine(1), split_size=size)
    found = count(str(tmp_path / "store"), LocalEngine(1), split_size=size, corrupt="skip")

    assert found.message_count == len(placed)


# --------------------------------------------------------------------------- the page


class Tags(HTMLParser):
    """Checks that what is opened is closed, and keeps texts."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.texts = [], set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_shows_hostile_names_as_they_are(tmp_path):
    with reput.open(tmp_path, plugins=()) as store:
        store.put(reput.Message("T", b"", tags="<script>alert(1)</script>", keys="a&b"))
    found = count(str(tmp_path), LocalEngine(1))

    text = page(found, "<b>title</b>")

    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not {"script", "b"} & tags.seen
    assert {"svg", "table"} <= tags.seen
    assert "<script>alert(1)</script>" in tags.texts
    assert "http" not in text  # nothing is loaded from elsewhere


def test_the_page_has_every_question(counted):
    text = page(counted, "stats")

    assert all(f'id="{name}"' in text for name in QUESTIONS)


# --------------------------------------------------------------------------- Spark, the command


def test_spark_counts_the_same_and_gives_frames(spark, made, counted):
    from reput_spark.jobs.engine import SparkEngine

    found = count(str(made), SparkEngine(spark), split_size=SPLIT)

    assert {name: table.to_pylist() for name, table in found.tables.items()} == {
        name: table.to_pylist() for name, table in counted.tables.items()
    }
    frames = found.frames(spark)
    assert frames["topics"].agg({"messages": "sum"}).collect()[0][0] == 900
    assert set(frames) == set(QUESTIONS)


def test_the_command_prints_tables_json_and_a_page(made, tmp_path):
    target = tmp_path / "page.html"

    shown = CliRunner().invoke(
        command, ["spark", "stats", str(made), "--jobs", "1", "--html", str(target)]
    )
    document = CliRunner().invoke(command, ["spark", "stats", str(made), "--jobs", "1", "--json"])

    assert (shown.exit_code, document.exit_code) == (0, 0)
    assert "topic-3" in shown.stdout
    assert "<svg" in target.read_text(encoding="utf-8")
    found = json.loads(document.stdout)
    assert found["message_count"] == 900
    assert sum(row["messages"] for row in found["hours"]) == 900
