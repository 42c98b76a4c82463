"""Every snippet of every page about Spark runs, in order, and again on what it has left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import reput
from reput_arrow import table

pytest.importorskip("pyspark")
for needed in ("reput_consumequeue", "reput_filter", "reput_index", "deltalake", "pyiceberg"):
    pytest.importorskip(needed)

pytestmark = pytest.mark.timeout(1_000)  # a page after the other, on one machine

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *("spark.md", "spark-tables.md", "spark-lakes.md"),
    *("spark-streaming.md", "spark-writing.md", "spark-jobs.md"),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The directory in which all snippets ran, twice, and what they have printed."""
    work = tmp_path_factory.mktemp("pages")
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "tests" / "support" / "sparkpages.py"), "2"),
            *(str(ROOT / "docs" / page) for page in PAGES),
        ],
        cwd=work,
        env={**os.environ, "XDG_CACHE_HOME": str(work / "cache"), "PYTHONPATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:]
    return work, done.stdout


def test_all_pages_about_spark_are_run():
    assert sorted(path.name for path in (ROOT / "docs").glob("spark*.md")) == sorted(PAGES)


def test_every_snippet_runs_twice(ran):
    _, said = ran

    marks = [line for line in said.splitlines() if line.startswith("--- ")]
    assert len(marks) == 2 * len({mark.split(" ", 2)[2] for mark in marks}) > 70
    assert "1000 messages" in said
    assert said.count("was there: True") == 2
    for count in (50, 100):  # a run puts as many again
        assert f"{count} valid messages, 0 damages" in said


def test_what_the_snippets_wrote_is_there_once_for_each_run(ran):
    work, _ = ran
    log = table(work / "orders-store", columns=["topic", "body", "tags"])
    copies = table(work / "orders-copy", columns=["topic"]).column("topic").to_pylist()

    with reput.open(work / "orders-store", "r", plugins=()) as store:
        assert log.num_rows == sum(len(batch) for batch in store.scan())
    assert copies.count("ticks") >= 3
    assert table(work / "daily-store", columns=["topic"]).num_rows == 1_000
    assert table(work / "refunds-store", columns=["topic"]).num_rows == 100


def test_a_copied_log_is_the_log_once_for_each_run(ran):
    work, _ = ran
    same = ["topic", "queue_id", "body", "properties", "store_timestamp", "store_host"]
    log = table(work / "orders-store", columns=same)
    copied = table(work / "copied-store", columns=same)
    first = copied.num_rows - log.num_rows

    assert 0 < first < log.num_rows
    assert copied.slice(0, first) == log.slice(0, first)
    assert copied.slice(first) == log
    imported = table(work / "imported-store", columns=["topic", "body"])
    assert imported == log.select(["topic", "body"]).slice(0, imported.num_rows)


def test_columns_and_order_of_what_was_written(ran):
    work, _ = ran
    tagged = table(work / "tagged-store", columns=["keys", "tags"]).to_pylist()
    bodies = table(work / "ordered-store", columns=["body"]).column("body").to_pylist()
    half = len(bodies) // 2

    assert tagged == [{"keys": ["k1", "k2"], "tags": "new"}] * 2
    assert (half, bodies[:half], bodies[half:]) == (1_000, sorted(bodies[:half]), bodies[:half])


def test_lakes_have_each_message_once_after_two_runs(ran):
    from deltalake import DeltaTable
    from pyarrow import parquet
    from pyiceberg.catalog.sql import SqlCatalog

    work, _ = ran
    catalog = SqlCatalog(
        "local",
        uri=f"sqlite:///{work}/orders-iceberg/catalog.db",
        warehouse=f"file://{work}/orders-iceberg",
    )
    log = table(work / "orders-store", columns=["physical_offset"]).column(0).to_pylist()
    lakes = {
        "parquet": parquet.read_table(work / "orders-lake", columns=["physical_offset"]),
        "delta": DeltaTable(str(work / "orders-delta")).to_pyarrow_table(),
        "iceberg": catalog.load_table("logs.orders").scan().to_arrow(),
    }

    for name, found in lakes.items():
        offsets = found.column("physical_offset").to_pylist()
        # Pages after this one have put more.
        assert 200 < len(offsets) < len(log), name
        assert sorted(offsets) == log[: len(offsets)], name
