"""A power cut that takes sectors of a record's topic or properties: no checksum covers them."""

from __future__ import annotations

import numpy as np
import pytest
from damaged_logs import FILE_SIZE, damage, killed, log_bytes, offsets, open_store

import reput
from reput.log.recovery.endsearch import torn_rows
from reput.record.checksum import SECTOR_SIZE
from reput.record.decode import Decoder
from reput.record.layout import PROPERTIES_SIZE_MAX

pytestmark = pytest.mark.shows("torn-properties")


def written(root, *lengths):
    """A killed store of messages with a property of each length, and where each stands."""
    with open_store(root) as store:
        places = [
            store.put(reput.Message("T", b"body", properties={"long": "v" * length}))
            for length in lengths
        ]
    killed(root)
    return places


def sectors_of_properties(root, place):
    """Where the sectors begin that start inside of a record's properties."""
    record = log_bytes(root)[place.physical_offset : place.end_offset]
    begin = place.physical_offset + record.index(b"long\x01")
    first = -(-begin // SECTOR_SIZE) * SECTOR_SIZE
    return range(first, place.end_offset, SECTOR_SIZE)


def test_a_record_in_the_middle_that_lost_a_sector_is_lost_and_noted(tmp_path):
    places = written(tmp_path, 1_200, 1_200, 10)
    lost = places[0]
    (at, *_) = sectors_of_properties(tmp_path, lost)
    assert at + SECTOR_SIZE < lost.end_offset
    damage(tmp_path, at, bytes(SECTOR_SIZE))

    with open_store(tmp_path) as store:
        found = offsets(store)
        (hole,) = store.recovery.damages
        (loss,) = store.losses()

    assert found == [each.physical_offset for each in places[1:]]
    assert (hole.start_offset, hole.end_offset) == (lost.physical_offset, lost.end_offset)
    assert (loss.start_offset, loss.end_offset) == (lost.physical_offset, lost.end_offset)
    assert (loss.reason, loss.action) == ("TORN", "filled")
    assert (loss.topic, loss.queue_id, loss.queue_offset) == ("T", 0, 0)


def test_whichever_sector_is_lost_its_record_is_never_shown_without_it(tmp_path):
    places = written(tmp_path, 700, 1_600, 30, 900, 200)
    sound = log_bytes(tmp_path)
    end = places[-1].end_offset
    for at in range(0, end, SECTOR_SIZE):
        damage(tmp_path, 0, sound)
        damage(tmp_path, at, bytes(min(SECTOR_SIZE, len(sound) - at)))

        with open_store(tmp_path, "r") as store:
            found = offsets(store)

        whole = [
            each.physical_offset
            for each in places
            if at + SECTOR_SIZE <= each.physical_offset or each.end_offset <= at
        ]
        # Zeros in front of records may be a put that was interrupted: then the log ends there.
        assert set(found) <= set(whole)
        assert found == whole or found == whole[: len(found)]


def test_what_a_sector_takes_of_two_records_costs_both(tmp_path):
    places = written(tmp_path, 1_200, 1_000, 500)
    *_, at = sectors_of_properties(tmp_path, places[0])
    assert at < places[0].end_offset < at + SECTOR_SIZE
    damage(tmp_path, at, bytes(SECTOR_SIZE))

    with open_store(tmp_path) as store:
        found = offsets(store)
        losses = store.losses()

    assert found == [places[2].physical_offset]
    assert [(loss.start_offset, loss.action) for loss in losses] == [
        (places[0].physical_offset, "filled"),
        (places[1].physical_offset, "filled"),
    ]


def test_the_last_record_is_cut(tmp_path):
    places = written(tmp_path, 10, 1_200)
    (at, *_) = sectors_of_properties(tmp_path, places[1])
    damage(tmp_path, at, bytes(SECTOR_SIZE))

    with open_store(tmp_path) as store:
        assert offsets(store) == [places[0].physical_offset]
        assert store.log.max_physical_offset == places[0].end_offset
        (loss,) = store.losses()
        receipt = store.put(reput.Message("T", b"next"))

    assert (loss.reason, loss.action) == ("TORN", "cut")
    assert receipt.physical_offset == places[1].physical_offset


def test_the_first_of_two_at_the_end_of_a_file_is_filled_and_the_next_file_is_read(tmp_path):
    places = written(tmp_path, 1_200, 2_000, 900)
    assert places[2].physical_offset == FILE_SIZE
    for place in places[:2]:
        (at, *_) = sectors_of_properties(tmp_path, place)
        damage(tmp_path, at, bytes(SECTOR_SIZE))

    with open_store(tmp_path) as store:
        assert offsets(store) == [places[2].physical_offset]
        assert [loss.action for loss in store.losses()] == ["filled", "filled"]


def test_rocketmq_believes_it(tmp_path):
    places = written(tmp_path, 1_200, 1_200)
    (at, *_) = sectors_of_properties(tmp_path, places[0])
    damage(tmp_path, at, bytes(SECTOR_SIZE))

    with open_store(tmp_path, recovery="rocketmq") as store:
        assert offsets(store) == [each.physical_offset for each in places]
        assert store.losses() == []


def test_what_was_flushed_is_not_looked_at_again(tmp_path):
    with open_store(tmp_path) as store:
        first = store.put(reput.Message("T", b"body", properties={"long": "v" * 1_500}))
        second = store.put(reput.Message("T", b"more"))
    (at, *_) = sectors_of_properties(tmp_path, first)
    (tmp_path / "abort").write_text("1")
    damage(tmp_path, at, bytes(SECTOR_SIZE))

    with open_store(tmp_path) as store:
        assert store.recovery.start_offset == second.end_offset
        assert offsets(store) == [first.physical_offset, second.physical_offset]


@pytest.mark.parametrize("length", [SECTOR_SIZE - 1, SECTOR_SIZE, 4 * SECTOR_SIZE])
@pytest.mark.parametrize("how", ["text", "bytes", "rows", "columns"])
def test_what_would_look_so_is_not_written(tmp_path, how, length):
    value = "a" + "\0" * length + "b"
    message = reput.Message("T", properties={"name": value})
    if how == "bytes":
        message = reput.Message("T", properties=b"name\x01" + value.encode() + b"\x02")

    with open_store(tmp_path) as store:

        def put():
            if how in ("text", "bytes"):
                return store.put(message)
            if how == "rows":
                return store.put_many([reput.Message("T", tags="other"), message])
            return store.put_many([message] * 3)

        if length < SECTOR_SIZE:
            assert put()
        else:
            with pytest.raises(ValueError, match="512 zero bytes in a row"):
                put()
            assert store.log.max_physical_offset == 0


@pytest.mark.parametrize("size", [91, 600, 3_000])
def test_zeros_elsewhere_in_a_record_are_none_of_its_properties(tmp_path, size):
    with open_store(tmp_path) as store:
        messages = [reput.Message("T", bytes(size), properties={"a": "b" * 600})] * 6
        places = [store.put(message).physical_offset for message in messages]
    killed(tmp_path)

    with open_store(tmp_path) as store:
        assert offsets(store) == places


def test_a_sector_that_the_window_ends_in_counts_as_far_as_it_was_read(tmp_path):
    length = PROPERTIES_SIZE_MAX - 100
    with open_store(tmp_path, file_size=1 << 20) as store:
        store.put(reput.Message("T", properties={"long": "v" * length}))
    data = bytearray(log_bytes(tmp_path)[: length + 300])
    end = int.from_bytes(data[:4], "big")
    at = (end - 1) // SECTOR_SIZE * SECTOR_SIZE
    window = data[:end]

    def rows(window, base=0):
        batch = Decoder().decode(np.frombuffer(bytes(window), np.uint8), base).batch
        assert len(batch) == 1
        return torn_rows(batch, base).tolist()

    assert rows(window) == []
    window[at:] = bytes(end - at)
    assert rows(window) == [0]
    window[at - 1] = 0  # nothing but whole sectors is lost
    assert rows(window) == [0]
    window[at:] = data[at:end]
    assert rows(window) == []


def written_across_a_border(root, kept, more=0):
    """A killed store with a record of no properties, of whose topic a sector ends after ``kept``.

    Returns:
        Where it stands, where the sector ends, and the receipts of ``more`` messages after it.
    """
    with open_store(root) as store:
        empty = store.put(reput.Message("orders", b"")).size
        gap = (SECTOR_SIZE - kept - (empty - len("orders") - 2)) % SECTOR_SIZE
        store.put(reput.Message("T", bytes(gap + SECTOR_SIZE - 2 * empty + 5)))
        place = store.put(reput.Message("orders", b""))
        others = [store.put(reput.Message("T", b"x" * 700)) for _ in range(more)]
    killed(root)
    at = place.physical_offset + log_bytes(root)[place.physical_offset :].index(b"orders") + kept
    return place, at, others


@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_a_last_record_that_lost_the_end_of_its_topic_is_cut(tmp_path, kept):
    place, at, _ = written_across_a_border(tmp_path, kept)
    assert at % SECTOR_SIZE == 0
    damage(tmp_path, at, bytes(place.end_offset - at))

    with open_store(tmp_path) as store:
        found = offsets(store)
        (loss,) = store.losses()
        end = store.log.max_physical_offset

    assert len(found) == 2
    assert place.physical_offset not in found
    assert (end, loss.reason, loss.action) == (place.physical_offset, "TORN", "cut")


def test_a_record_in_the_middle_that_lost_the_end_of_its_topic_is_lost_and_noted(tmp_path):
    place, at, others = written_across_a_border(tmp_path, 3, more=3)
    damage(tmp_path, at, bytes(SECTOR_SIZE))

    with open_store(tmp_path) as store:
        found = offsets(store)
        losses = store.losses()

    assert found[2:] == [each.physical_offset for each in others[1:]]
    assert losses[0].start_offset == place.physical_offset
    assert {loss.reason for loss in losses} <= {"TORN", "BAD_SIZE", "BODY_CRC", "BAD_MAGIC"}
