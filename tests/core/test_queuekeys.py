"""A negative queue id, which damage can leave in a header, credits no other queue or topic."""

from __future__ import annotations

import numpy as np
import pytest
from statefiles import forget_progress

import reput
from reput.record import queue_keys, queue_of_key
from reput.record.layout import HEADER_DTYPE

SMALL = {"commitlog": {"file_size": 65_536}}
QUEUE_ID_AT = HEADER_DTYPE.fields["queue_id"][1]


def store_with_negative_queue_id(path, queue_id=-1):
    """Write messages of two topics, and make the queue id of the last one negative."""
    with reput.open(path, plugins=(), config=SMALL) as store:
        for topic in ("first", "second", "first", "first"):
            last = store.put(reput.Message(topic, b"x"))
    with open(path / "commitlog" / f"{0:020d}", "r+b") as file:
        file.seek(last.physical_offset + QUEUE_ID_AT)
        file.write(queue_id.to_bytes(4, signed=True))


@pytest.mark.parametrize("queue_id", [0, 1, (1 << 31) - 1, -1, -(1 << 31)])
@pytest.mark.parametrize("code", [0, 1, (1 << 31) - 1])
def test_a_key_gives_back_topic_and_queue_id(code, queue_id):
    (key,) = queue_keys(np.array([code], np.int32), np.array([queue_id], np.int32)).tolist()

    assert queue_of_key(key) == (code, queue_id)


def test_queue_offsets_counted_from_the_log_ignore_a_negative_queue_id(tmp_path):
    store_with_negative_queue_id(tmp_path)
    forget_progress(tmp_path)
    (tmp_path / "abort").touch()

    with reput.open(tmp_path, plugins=(), config=SMALL) as store:
        assert dict(store.log.queue_offsets) == {("first", 0): 2, ("second", 0): 1}
        assert store.put(reput.Message("second", b"y")).queue_offset == 1
