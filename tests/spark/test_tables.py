"""Tables of what people of RocketMQ ask for: as the doctor's report tells it, without Spark."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from reportedstore import HALVES, STRANGE, make_store

import reput
from reput_spark import tables

making = pytest.importorskip("reput_tools.doctor.storereport.reportbuilder")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """Directory of one broker, whose store has something of everything."""
    root = tmp_path_factory.mktemp("brokers") / "broker-a"
    make_store(root / "store")
    return root.parent


@pytest.fixture(scope="module")
def report(brokers):
    return making.make_report(brokers / "broker-a" / "store")


@pytest.fixture(scope="module", params=["log", "queues", "queues behind"])
def asked(request, brokers, report, tmp_path_factory):
    """Pattern of the same store: without consume queues, with them, with such as end early."""
    if request.param == "log":
        return f"{brokers}/*/store"
    root = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    shutil.copytree(brokers, root, dirs_exist_ok=True)
    store = root / "broker-a" / "store"
    with reput.open(store, plugins=("consumequeue",)) as opened:
        opened.wait_dispatched()
        if request.param == "queues behind":
            opened.suspend_plugin("consumequeue")
            opened.put(reput.Message("orders", b"late", queue_id=1))
    return f"{root}/*/store"


def is_late(asked):
    return "behind" in asked


def test_lag_is_that_of_the_report(spark, asked, report):
    expected = {
        (group.group, group.topic, queue.queue_id): (
            *(queue.committed, queue.end, queue.lag, queue.waiting_since_timestamp),
        )
        for group in report.groups
        for queue in group.queues
    }
    if is_late(asked):
        late = ("shop", "orders", 1)
        committed, end, lag, since = expected[late]
        expected[late] = (committed, end + 1, lag + 1, since)

    found = tables.consumer_lag(spark, asked).selectExpr(
        *("broker", "group", "topic", "queue_id"),
        *("committed", "max_queue_offset", "lag", "unix_millis(waiting_since)"),
    )

    assert {tuple(row)[1:4]: tuple(row)[4:] for row in found.collect()} == expected
    assert {row.broker for row in found.collect()} == {"broker-a"}


def test_queues_are_those_of_the_report(spark, asked, report):
    expected = {
        (each.topic, each.queue_id): (
            *(each.min_queue_offset, each.max_queue_offset, each.message_count),
            *(each.first_timestamp, each.last_timestamp),
        )
        for each in report.queues
    }
    late = expected.pop(("orders", 1))

    found = tables.queues(spark, asked).selectExpr(
        *("topic", "queue_id", "min_queue_offset", "max_queue_offset", "message_count"),
        *("unix_millis(first_timestamp)", "unix_millis(last_timestamp)"),
    )

    seen = {tuple(row)[:2]: tuple(row)[2:] for row in found.collect()}
    assert seen.pop(("orders", 1))[:2] == (late[0], late[1] + is_late(asked))
    if "queues" in asked:  # whose files cannot have such a name
        expected.pop((STRANGE, 0))
        seen.pop((STRANGE, 0), None)
    assert seen == expected


def test_the_backlog_of_delays_is_that_of_the_report(spark, asked, report):
    found = tables.schedule_backlog(spark, asked).selectExpr(
        *("level", "delivered_to", "waiting", "unix_millis(waiting_since)", "parked")
    )

    assert [tuple(row) for row in found.collect()] == [
        (each.level, each.delivered_to, each.waiting, each.waiting_since_timestamp, each.parked)
        for each in report.delay_levels
    ]


def test_transactions_are_those_of_the_report(spark, brokers, report):
    found = tables.dangling_transactions(spark, f"{brokers}/*").selectExpr(
        *("physical_offset", "unix_millis(store_timestamp)", "queue_offset", "topic"),
        *("`group`", "key"),
    )

    assert sorted(tuple(row) for row in found.collect()) == [
        (
            *(each.physical_offset, each.store_timestamp, each.queue_offset, each.topic),
            *(each.group, each.key),
        )
        for each in report.transactions.oldest
    ]
    assert 0 < report.transactions.open_count < HALVES


def test_transaction_bits_that_rocketmq_wrote(spark, golden_store):
    root = golden_store("transaction")
    expected = making.make_report(root).transactions

    found = tables.dangling_transactions(spark, root).orderBy("physical_offset").collect()

    assert len(found) == expected.open_count > 0
    assert [(row.physical_offset, row.topic) for row in found[:20]] == [
        (each.physical_offset, each.topic) for each in expected.oldest
    ]


@pytest.mark.parametrize("case", ["basic", "trimmed", "delay", "batch"])
def test_queues_that_rocketmq_wrote(spark, golden_store, golden_rows, case):
    expected = {
        (row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"])
        for row in golden_rows(case, "queue")
        if row["min_offset"] < row["max_offset"]
    }

    found = tables.queues(spark, golden_store(case)).where("message_count > 0").collect()

    assert {
        (row.topic, row.queue_id): (row.min_queue_offset, row.max_queue_offset) for row in found
    } == expected


def test_dead_letters_and_retries_of_a_group(spark, tmp_path):
    properties = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "A1"}
    with reput.open(tmp_path / "store", plugins=("consumequeue",)) as store:
        for number in range(3):
            retry = reput.Message("%RETRY%billing", b"%d" % number, properties=properties)
            store.put(retry)
        dead = {**properties, "DLQ_ORIGIN_TOPIC": "bills", "DLQ_ORIGIN_MESSAGE_ID": "B2"}
        store.put(reput.Message("%DLQ%billing", b"dead", reconsume_times=16, properties=dead))
        store.put(reput.Message("orders", b"x"))
    (tmp_path / "store" / "config").mkdir(exist_ok=True)
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(
        '{"offsetTable": {"%RETRY%billing@billing": {0: 2}}}'
    )

    retries = tables.retries(spark, tmp_path / "store").orderBy("queue_offset").collect()
    (letter,) = tables.dead_letters(spark, tmp_path / "store").collect()

    assert [(row.group, row.origin_topic, row.is_waiting) for row in retries] == [
        ("billing", "orders", False),
        ("billing", "orders", False),
        ("billing", "orders", True),
    ]
    assert (letter.group, letter.origin_topic, letter.origin_msg_id) == ("billing", "bills", "B2")
    assert (bytes(letter.body), letter.reconsume_times) == (b"dead", 16)
    assert tables.dead_letters(spark, tmp_path / "store", group="other").count() == 0


def test_every_table_is_a_view(spark, brokers):
    names = tables.register(spark, f"{brokers}/*/store", prefix="mq_")

    try:
        assert names == [f"mq_{name}" for name in sorted(tables.TABLES)]
        late = "SELECT `group`, topic FROM mq_consumer_lag WHERE topic = 'orders' AND lag > 150"
        assert tuple(spark.sql(late).first()) == ("shop", "orders")
        assert spark.sql("SELECT * FROM mq_trace").collect() == []
    finally:
        for name in names:
            spark.catalog.dropTempView(name)


def test_the_page_names_every_column():
    from reput_arrow.tables.messagetrace import TRACE_COLUMNS
    from reput_arrow.tables.queuerows import COLUMNS

    page = (Path(__file__).parents[2] / "docs" / "spark-tables.md").read_text(encoding="utf-8")
    for name in tables.TABLES:
        (row,) = re.findall(rf"\| `{name}` \|.*", page)
        for column in {**COLUMNS, "trace": TRACE_COLUMNS}.get(name, "").split(", "):
            assert f"`{column.split(' ')[0]}`" in row or column in (
                "",
                "store string",
                "broker string",
            )


def test_a_path_without_a_store_is_told(spark, tmp_path):
    with pytest.raises(Exception, match="REPUT_NO_LOG"):
        tables.queues(spark, tmp_path).collect()
