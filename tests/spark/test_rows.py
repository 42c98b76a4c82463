"""Which rows are wanted, beside a plain model that looks at messages one by one."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sparkstores import messages_of

from reput_spark import ReadOptions
from reput_spark.reader.tasks import plan_tasks, read_task
from reput_spark.source.schema import arrow_schema, spark_schema

SCHEMA = arrow_schema(spark_schema(["physical_offset", "topic", "tags"]))


@pytest.fixture(scope="module")
def messages(plain_store):
    return messages_of(plain_store)


OPTIONS = st.fixed_dictionaries(
    {"batch_rows": st.sampled_from(["1", "7", "8192"])},
    optional={
        "topic": st.sampled_from(["topic-0", "topic-1,topic-2", "nobody"]),
        "queue_id": st.sampled_from(["0", "1,2", "9"]),
        "min_offset": st.integers(0, 120_000).map(str),
        "max_offset": st.integers(0, 120_000).map(str),
        "min_queue_offset": st.integers(0, 40).map(str),
        "max_queue_offset": st.integers(0, 40).map(str),
        "start": st.sampled_from(["0", "2020-01-01", "2200-01-01"]),
        "end": st.sampled_from(["0", "2020-01-01", "2200-01-01"]),
        "filter": st.sampled_from(["weight > 5", "number BETWEEN 10 AND 20"]),
        "split_size": st.sampled_from(["65536", "file"]),
        "corrupt": st.sampled_from(["fail", "skip", "collect"]),
        "check_crc": st.sampled_from(["true", "false"]),
    },
)


def wanted(message, options):
    """The model: one message, one condition after another."""
    number = int(message.properties["number"])
    return (
        (options.topics is None or message.topic in options.topics)
        and (options.queue_ids is None or message.queue_id in options.queue_ids)
        and (options.min_offset is None or message.physical_offset >= options.min_offset)
        and (options.max_offset is None or message.physical_offset < options.max_offset)
        and (options.min_queue_offset is None or message.queue_offset >= options.min_queue_offset)
        and (options.max_queue_offset is None or message.queue_offset < options.max_queue_offset)
        and (options.start_timestamp is None or message.store_timestamp >= options.start_timestamp)
        and (options.end_timestamp is None or message.store_timestamp < options.end_timestamp)
        and {None: True, "weight > 5": number % 10 > 5}.get(
            options.filter and options.filter.text, 10 <= number <= 20
        )
    )


@settings(deadline=None, max_examples=150)
@given(given_options=OPTIONS)
def test_rows_are_those_of_the_model(given_options, plain_store, messages):
    pytest.importorskip("reput_filter")
    options = ReadOptions.parse({"path": str(plain_store), **given_options})

    batches = [batch for task in plan_tasks(options) for batch in read_task(task, options, SCHEMA)]

    found = [offset for batch in batches for offset in batch.column(0).to_pylist()]
    assert found == [message.physical_offset for message in messages if wanted(message, options)]
    assert all(0 < batch.num_rows <= options.batch_rows for batch in batches)
    assert all(batch.schema == SCHEMA for batch in batches)


def test_splits_that_hold_nothing_wanted_are_not_read(plain_store, messages):
    whole = plan_tasks(ReadOptions.parse({"path": str(plain_store), "split_size": "file"}))
    middle = messages[len(messages) // 2].physical_offset
    options = {"path": str(plain_store), "split_size": "file", "min_offset": str(middle)}

    above = plan_tasks(ReadOptions.parse(options))
    one = plan_tasks(ReadOptions.parse({**options, "max_offset": str(middle + 1)}))

    assert len(whole) > len(above) > len(one) == 1
    assert one[0].split.start_offset <= middle < one[0].split.end_offset
    beyond = ReadOptions.parse({"path": str(plain_store), "min_offset": str(1 << 62)})
    assert plan_tasks(beyond) == []
    below = ReadOptions.parse({"path": str(plain_store), "max_offset": "0"})
    assert plan_tasks(below) == []


def test_the_filter_is_asked_last_and_only_where_something_is_left(plain_store):
    class Asked:
        count = 0

        def matches_batch(self, batch):
            self.count += 1
            return np.ones(len(batch), np.bool_)

    options = attrs.evolve(
        ReadOptions.parse({"path": str(plain_store), "topic": "nobody"}), filter=Asked()
    )

    for task in plan_tasks(options):
        assert list(read_task(task, options, SCHEMA)) == []
    assert options.filter.count == 0
