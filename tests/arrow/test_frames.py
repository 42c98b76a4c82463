"""Polars and DuckDB read scans, and ask only for what they need."""

from __future__ import annotations

import pytest
from sparkstores import fill, messages_of

from reput_arrow import scan


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("frames") / "store"
    fill(path)
    return path


def test_polars_reads_a_scan_whole(root):
    polars = pytest.importorskip("polars")

    frame = polars.DataFrame(scan(root, topic="topic-1", columns=["flag", "keys", "body"]))

    wanted = [message for message in messages_of(root) if message.topic == "topic-1"]
    assert frame["flag"].to_list() == [message.flag for message in wanted]
    assert frame["keys"].to_list() == [list(message.keys) for message in wanted]
    assert frame["body"].to_list() == [message.body for message in wanted]


def test_polars_reads_lazily_what_its_query_needs(root, monkeypatch):
    polars = pytest.importorskip("polars")
    from reput_arrow.scanner import scanstream

    asked = []
    original = scanstream.Scan.only
    monkeypatch.setattr(
        scanstream.Scan, "only", lambda self, names: asked.append(names) or original(self, names)
    )
    frame = scan(root, batch_size=2_000).lazy()

    found = (
        frame.filter(polars.col("queue_id") == 1)
        .group_by("topic")
        .agg(polars.len(), polars.col("flag").max())
        .sort("topic")
        .collect()
    )

    wanted = [message for message in messages_of(root) if message.queue_id == 1]
    topics = sorted({message.topic for message in wanted})
    assert found["topic"].to_list() == topics
    assert found["len"].to_list() == [sum(m.topic == topic for m in wanted) for topic in topics]
    assert [set(names) for names in asked] == [{"queue_id", "topic", "flag"}]


def test_polars_stops_after_the_rows_that_it_needs(root):
    polars = pytest.importorskip("polars")

    head = scan(root, batch_size=1_000).lazy().select("flag").head(7).collect()
    tail = scan(root).lazy().filter(polars.col("flag") > 390).select("flag").collect()

    assert head["flag"].to_list() == list(range(7))
    assert tail["flag"].to_list() == list(range(391, 400))


def test_duckdb_queries_a_scan(root):
    duckdb = pytest.importorskip("duckdb")
    messages = scan(root, columns=["topic", "body", "properties"], body="text")

    with duckdb.connect() as connection:
        found = connection.sql(
            "SELECT topic, count(*), sum(length(body)), max(CAST(properties['number'] AS INT)) "
            "FROM messages GROUP BY topic ORDER BY topic"
        ).fetchall()

    wanted = messages_of(root)
    assert messages is not None
    for topic, count, size, number in found:
        of_topic = [message for message in wanted if message.topic == topic]
        assert count == len(of_topic)
        assert size == sum(len(message.body) for message in of_topic)
        assert number == max(int(message.properties["number"]) for message in of_topic)
    assert len(found) == 4
