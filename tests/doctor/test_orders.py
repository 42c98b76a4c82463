"""The order of a log: parts that are joined show what one reading of all of it shows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reput.record import Decoder, Encoder, Message
from reput_tools.doctor.verification.logorder import LogOrder, join

ENCODER = Encoder()
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),  # topic
        st.integers(0, 1),  # queue id
        st.integers(-1, 3),  # how far from the offset that follows
        st.integers(-3_000, 3_000),  # how far from the time before
    ),
    max_size=30,
)


def log_of(rows):
    """Bytes of records, and what the model says of their order."""
    nexts, data, breaks, times = {}, bytearray(), [], []
    time = 1_000_000
    last_time = None
    for topic, queue_id, step, more in rows:
        key = f"t{topic}", queue_id
        offset = max(nexts.get(key, 0) + step, 0)
        time += more
        place = len(data)
        if key in nexts and offset != nexts[key]:
            breaks.append((*key, nexts[key], offset, place))
        if last_time is not None and time < last_time - 1_000:
            times.append((place, time, last_time))
        nexts[key], last_time = offset + 1, time
        data += record(key, offset, place, time)
    return bytes(data), breaks, times


def record(key, queue_offset, place, time):
    topic, queue_id = key
    message = Message(topic, b"x", queue_id=queue_id, born_timestamp=time)
    return ENCODER.encode(message, queue_offset, place, time)


def orders_of(data, start, stop):
    found = LogOrder()
    window = np.frombuffer(data[start:stop], np.uint8)
    if len(window):
        found.add(Decoder().decode(window, start).batch)
    return found


@given(ROWS, st.data())
def test_parts_that_are_joined_show_what_the_whole_shows(rows, drawn):
    data, breaks, times = log_of(rows)
    whole = orders_of(data, 0, len(data))
    starts = [int(each) for each in Decoder().decode(np.frombuffer(data, np.uint8), 0).batch.start]
    cuts = sorted(drawn.draw(st.sets(st.sampled_from(starts or [0]), max_size=4)))
    parts = [
        orders_of(data, start, stop)
        for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)
    ]

    joined = join(parts)

    for found in (whole, joined):
        assert sorted(
            (each.topic, each.queue_id, each.expected, each.found, each.place)
            for each in found.breaks
        ) == sorted(breaks)
        assert [(each.place, each.found, each.expected) for each in found.times] == times
        assert found.message_count == len(rows)
    assert joined.queues == whole.queues
