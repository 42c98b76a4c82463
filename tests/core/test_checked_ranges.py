"""With `record_crc` a record without its checksum is damaged, where the option was on."""

from __future__ import annotations

import json
import re

import pytest
from statefiles import forget, put_value, value_of

import reput
from reput import Message
from reput.log import CheckedRanges
from reput.record.layout import CRC_PROPERTY_SIZE
from reput_testing import QuickDisk, kill

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.shows("record-crc")]
SIZE = 8_192


def written(root, count=6, *, record_crc=True, closes=True, **options):
    """Put messages; return their places and sizes."""
    store = reput.open(
        root,
        plugins=(),
        config={"commitlog": {"file_size": SIZE, "record_crc": record_crc, **options}},
        threads=False,
        disk=QuickDisk(),
    )
    receipts = [store.put(Message("t", b"b", properties={"price": "10"})) for _ in range(count)]
    store.flush()
    store.close() if closes else kill(store)
    return [(each.physical_offset, each.size) for each in receipts]


def flip_name(root, place, size):
    """Flip a bit of the checksum property's own name."""
    flip(root, place + size - CRC_PROPERTY_SIZE + 3)


def flip(root, place, bits=1):
    path = root / "commitlog" / f"{place - place % SIZE:020}"
    data = bytearray(path.read_bytes())
    data[place % SIZE] ^= bits
    path.write_bytes(data)


def scanned(root):
    """Return the places of all records that a scan with checksums gives, and what it finds."""
    with reput.open(root, mode="r", plugins=()) as store:
        batches = list(store.scan(check_crc=True))
    places = [int(place) for batch in batches for place in batch.physical_offset]
    return places, [str(batch.finding) for batch in batches if batch.finding is not None]


def as_java_appends(root, records):
    """Open the store as RocketMQ does, and append records without checksums."""
    with open(root / "lock", "r+b") as file:
        file.write(b"lock")
    with reput.open(root, mode="r", plugins=()) as store:
        end = store.log.max_physical_offset
    other = root.parent / "other"
    for place, size in records:
        data = (other / "commitlog" / f"{0:020}").read_bytes()[place : place + size]
        data = data[:28] + end.to_bytes(8, "big") + data[36:]
        path = root / "commitlog" / f"{end - end % SIZE:020}"
        log = path.read_bytes()
        path.write_bytes(log[: end % SIZE] + data + log[end % SIZE + size :])
        end += size
    checkpoint = root / "checkpoint"
    data = bytearray(checkpoint.read_bytes())
    data[7] ^= 1
    checkpoint.write_bytes(data)


def test_a_record_whose_checksum_lost_its_name_is_damaged(tmp_path):
    places = written(tmp_path)
    flip_name(tmp_path, *places[2])

    found, findings = scanned(tmp_path)

    assert found == [place for place, _ in places[:2] + places[3:]]
    (finding,) = findings
    assert "no checksum property" in finding


def test_recovery_fills_a_record_whose_checksum_lost_its_name(tmp_path):
    places = written(tmp_path, closes=False)
    flip_name(tmp_path, *places[4])
    forget(tmp_path, ".log")

    with reput.open(tmp_path, plugins=(), threads=False) as store:
        (loss,) = store.losses()
        assert loss.start_offset == places[4][0]

    found, findings = scanned(tmp_path)
    assert findings == []
    assert len(found) == 6  # the filler has a checksum, too


def test_without_the_option_nothing_is_asked_of_a_record(tmp_path):
    written(tmp_path, record_crc=False)

    assert value_of(tmp_path, ".checked") == b""
    assert len(scanned(tmp_path)[0]) == 6


def test_switching_the_option_off_and_on_is_noted_as_ranges(tmp_path):
    first = written(tmp_path)
    plain = written(tmp_path, record_crc=False)
    last = written(tmp_path)

    assert scanned(tmp_path) == ([place for place, _ in first + plain + last], [])
    assert json.loads(value_of(tmp_path, ".checked")) == [[0, plain[0][0]], [last[0][0], None]]
    for place, size in (first[1], last[1]):
        flip_name(tmp_path, place, size)
    assert len(scanned(tmp_path)[1]) == 2


def test_the_option_from_an_offset_on_leaves_older_records_alone(tmp_path):
    plain = written(tmp_path, record_crc=False)
    checked = written(tmp_path)
    flip(tmp_path, plain[1][0] + plain[1][1] - 3)  # a letter of a property that nothing covers
    flip_name(tmp_path, *checked[0])

    found, findings = scanned(tmp_path)

    assert len(findings) == 1
    assert found == [place for place, _ in plain + checked[1:]]


@pytest.mark.parametrize("closes", [True, False])
def test_records_that_rocketmq_wrote_in_turn_need_no_checksum(closes, tmp_path):
    root = tmp_path / "store"
    mine = written(root, closes=closes)
    theirs = written(tmp_path / "other", 3, record_crc=False)
    as_java_appends(root, theirs)

    assert scanned(root) == ([place for place, _ in mine] + scanned(root)[0][6:], [])
    assert len(scanned(root)[0]) == 9
    again = written(root, 2)
    assert scanned(root)[1] == []
    assert len(scanned(root)[0]) == 11
    flip_name(root, *mine[1])
    flip_name(root, *again[0])
    assert len(scanned(root)[1]) == 2


def test_a_reader_that_follows_a_writer_asks_nothing_of_what_comes_later(tmp_path):
    written(tmp_path)
    with reput.open(tmp_path, mode="r", plugins=()) as reader:
        written(tmp_path, record_crc=False)

        batches = list(reader.scan(check_crc=True))

    assert sum(len(batch) for batch in batches) == 12
    assert not [batch.finding for batch in batches if batch.finding is not None]


@pytest.mark.costly
def test_a_damaged_note_asks_nothing_and_is_a_problem(tmp_path):
    places = written(tmp_path)
    flip_name(tmp_path, *places[2])
    path = tmp_path / "reput" / "state"
    data = path.read_bytes()
    blocks = [match.start() for match in re.finditer(b"RPSJ", data)]
    for bit in range(8 * blocks[-1], 8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with reput.open(tmp_path, mode="r", plugins=()) as store:
            (problem,) = store.problems
            assert f"the journal is damaged at byte {blocks[-1]}" in problem

    assert len(blocks) == 2


@pytest.mark.parametrize(
    ("offset", "covers", "border"),
    [(0, False, 5), (5, True, 9), (8, True, 9), (9, False, 20), (20, True, None)],
)
def test_borders_of_ranges(offset, covers, border):
    ranges = CheckedRanges(((5, 9),)).from_on(20)

    assert (ranges.covers(offset), ranges.border_after(offset)) == (covers, border)


def test_ranges_join_and_end():
    ranges = CheckedRanges().from_on(0).until(7).from_on(7)

    assert len(ranges.ranges) == 1
    assert ranges.until(3).ranges == ((0, 3),)
    assert ranges.until(0).ranges == ()


class Order(QuickDisk):
    """Notes what is brought to disk or written, in order."""

    def __init__(self):
        self.calls = []

    def replace(self, path, data):
        self.calls.append(f"replace {path}")
        super().replace(path, data)

    def flush_directory(self, path):
        self.calls.append(f"flush {path}")
        super().flush_directory(path)

    def map(self, descriptor, size):
        self.calls.append("map")
        return super().map(descriptor, size)


def test_a_note_whose_name_a_killed_opening_did_not_bring_to_disk_is_there_before_a_put(tmp_path):
    """A note of the same bytes is not written again, so its directory must be flushed."""
    written(tmp_path, closes=False)
    disk = Order()

    with reput.open(tmp_path, plugins=(), disk=disk) as store:
        del store

    assert f"replace {tmp_path}/reput/state" not in disk.calls
    assert disk.calls.index(f"flush {tmp_path}/reput") < disk.calls.index("map")


@pytest.mark.parametrize(
    "text", ['[["a",null]]', "[[null,null]]", "[[1.5,2.5]]", "[[-1,5]]", "[1]"]
)
def test_ranges_that_no_writer_notes_are_ignored(tmp_path, text):
    places = [place for place, _ in written(tmp_path)]
    put_value(tmp_path, ".checked", text.encode())

    assert scanned(tmp_path) == (places, [])
    written(tmp_path, 1)
    assert json.loads(value_of(tmp_path, ".checked"))[-1][1] is None
