"""Logs that DLedger keeps: the same records, each behind the head of an entry."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from brokerdirectories import GOLDEN, snapshot, unpacked
from dledgerlog import DLedgerLog
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.files import Disk, FilePool
from reput.log import LogEnd, LogReader, log_files
from reput.record import Decoder, decode

STORES = ["4.9.7", "5.3.3", "5.3.3-mixed", "5.5.0-killed"]
PLUGINS = ["consumequeue", "index"]


def rows_of(case, kind):
    with gzip.open(GOLDEN / "dledger" / case / "expected.jsonl.gz", "rt") as file:
        return [row for row in map(json.loads, file) if row["kind"] == kind]


@pytest.fixture(params=["kernels", "python"])
def engine(request, monkeypatch):
    """Run with the kernels of the engine, and with their specification in Python."""
    if request.param == "python":
        reference = getattr(decode.cut_window, "__wrapped__", decode.cut_window)
        monkeypatch.setattr(decode, "cut_window", reference)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("case", STORES)
def test_a_recorded_store_answers_as_its_broker_did(case, tmp_path):
    root = unpacked(f"dledger/{case}", tmp_path)
    before = snapshot(root)
    (ledger,) = rows_of(case, "ledger")
    expected = {row["physical_offset"]: row for row in rows_of(case, "message")}

    with reput.open(root, "r", plugins=PLUGINS) as store:
        offsets = np.concatenate([batch.physical_offset for batch in store.scan()])
        for offset, row in expected.items():
            message = store.get(offset)
            assert message.body.hex() == row["body"]
            assert (message.topic, message.queue_id) == (row["topic"], row["queue_id"])
            assert (message.queue_offset, message.size) == (row["queue_offset"], row["size"])
            assert row["properties"].items() <= dict(message.properties).items()
        read = {}
        for row in rows_of(case, "queue"):
            place = row["topic"], row["queue_id"]
            number = row["min_offset"]
            while number < row["max_offset"]:
                result = store.read(*place, number)
                if not result.messages:
                    break
                read |= {m.physical_offset: (*place, m.queue_offset) for m in result.messages}
                number = result.next_queue_offset
        for row in rows_of(case, "query"):
            found = [m.physical_offset for m in store.query(row["topic"], row["key"], limit=64)]
            wanted = set(row["physical_offsets"])
            assert wanted - set(found) == set() or case == "5.5.0-killed"
        acknowledged = {int(row["offset_msg_id"][16:], 16) for row in rows_of(case, "acked")}
        assert store.log.max_physical_offset == ledger["end"]
        assert bool(store.problems) == (case == "5.5.0-killed")

    assert np.count_nonzero(offsets >= ledger["begin"]) == ledger["entries"]
    assert acknowledged | set(expected) <= set(offsets.tolist())
    missing = set(expected) - set(read)
    assert len(missing) == (1 if case == "5.5.0-killed" else 0)
    assert snapshot(root) == before


# --------------------------------------------------------------------------- written here


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Records of many sizes, in the order of a log."""
    root = tmp_path_factory.mktemp("plain") / "store"
    with reput.open(root, plugins=(), config={"commitlog": {"file_size": 16_384}}) as store:
        for number in range(120):
            body = b"%d " % number * (number * 7 % 60)
            store.put(reput.Message(f"t-{number % 3}", body, queue_id=number % 2, tags="A"))
        return Records(batch.record(row) for batch in store.scan() for row in range(len(batch)))


class Records(list):
    """A list that Hypothesis can show beside an example that fails."""

    def __repr__(self):
        return f"<{len(self)} records>"


def written(root, records, **options):
    log = DLedgerLog(root / "store", **options)
    for record in records:
        log.append(record)
    return log.write()


def shown(root):
    """Offsets that a reader scans, with all checks, and its problems."""
    with reput.open(root, "r", plugins=()) as store:
        batches = [batch.physical_offset.tolist() for batch in store.scan(check_crc=True)]
        return [offset for batch in batches for offset in batch], store.problems


def scanned(log, window_size, start=None, end=None, check_crc=False):
    """Rows of a scan with windows of that size: offset, size and topic."""
    disk = Disk().at(str(log.root))
    pool = FilePool(disk, 4)
    files = log_files(str(log.root), log.file_size, disk, pool)
    files.load(writable=False)
    reader = LogReader(files, window_size, end=LogEnd(log.position))
    rows = []
    for batch in reader.scan(start, end, check_crc=check_crc):
        assert batch.finding is None
        names = [batch.topics[code] for code in batch.topic_code.tolist()]
        rows += zip(batch.physical_offset.tolist(), batch.size.tolist(), names, strict=True)
    pool.close()
    disk.release()
    return rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory, records):
    return written(tmp_path_factory.mktemp("whole"), records)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 20_000), st.data(), st.booleans())
def test_where_windows_end_and_begin_changes_no_row(whole, size, data, check_crc):
    borders = st.sampled_from([*whole.offsets, *(offset - 48 for offset in whole.offsets)])
    start, end = data.draw(borders), data.draw(borders)

    rows = scanned(whole, size, start, end, check_crc)

    wanted = [each for each in whole.offsets if each >= start and each < max(end, start)]
    assert [offset for offset, _, _ in rows] == wanted
    assert rows == [row for row in scanned(whole, 1 << 20) if row[0] in wanted]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 16_384), st.integers(0, 16_384), st.binary(max_size=60), st.booleans())
def test_both_kernels_decode_entries_alike(whole, at, size, spoil, check_crc):
    window = np.frombuffer(whole.data, np.uint8).copy()
    window = window[at : at + size]
    window[size // 3 : size // 3 + len(spoil)] = list(spoil[: len(window[size // 3 :])])
    kernel, found = decode.cut_window, []

    for each in (kernel, getattr(kernel, "__wrapped__", kernel)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decode, "cut_window", each)
            result = Decoder(check_crc=check_crc).decode(window, at, 16_384, 48)
        batch = result.batch
        places = [batch.start.tolist(), batch.size.tolist(), batch.properties_text.starts.tolist()]
        found.append((places, batch.end_offset, batch.finding, result.end, result.needed_size))

    assert found[0] == found[1]


@pytest.mark.parametrize("back", [1, 2, 60])
@pytest.mark.usefixtures("engine")
def test_a_spoiled_byte_of_a_head_costs_one_entry_at_most(back, tmp_path, records):
    log = written(tmp_path, records)
    at = log.offsets[-back]

    for place in range(48):
        good = log.data[at - 48 + place]
        for bad in (good ^ 0x80, good ^ 0x01, 0):
            log.spoil(at - 48 + place, bytes([bad]))
            offsets, _ = shown(log.root)
            # Neither a broker nor reput looks at the channel and at two checksums.
            is_seen = bad != good and not 32 <= place < 44
            is_later = bad > good and (16 < place < 24 or (place == 16 and bad < 0x80))
            if is_later:  # the term: the next entry contradicts it
                after = [*log.offsets, 0][len(log.offsets) - back + 1]
                assert offsets == [each for each in log.offsets if each != after]
                continue
            assert offsets == [each for each in log.offsets if not is_seen or each != at], place
        log.spoil(at - 48 + place, bytes([good]))


@pytest.mark.costly
def test_a_log_that_is_cut_anywhere_ends_before_the_cut(tmp_path, records):
    log = written(tmp_path, records)
    (log.root / "abort").touch()
    first = log.offsets[-2] - 48

    for cut in range(first, log.position):
        log.spoil(cut, bytes(log.position - cut))
        offsets, _ = shown(log.root)
        end = [*log.offsets[1:], log.position + 48]
        whole = [each for each, after in zip(log.offsets, end, strict=True) if after - 48 <= cut]
        # Zeros at the end of the last entry may be its own bytes.
        assert offsets in (whole, log.offsets[: len(whole) + 1])
        assert cut >= log.position - 8 or offsets == whole
        log.spoil(cut, bytes(log.data[cut:]))


def test_sizes_are_bounded_before_they_are_used(tmp_path, records):
    log = written(tmp_path, records)
    at = log.offsets[-3] - 48

    for size in (-1, 0, 47, 48, 138, 1 << 30, 2**31 - 1):
        log.spoil(at + 4, size.to_bytes(4, "big", signed=True))
        offsets, _ = shown(log.root)
        assert offsets == [each for each in log.offsets if each != at + 48]


def test_entries_of_an_older_leader_after_the_end_are_no_messages(tmp_path, records):
    log = written(tmp_path, records[:-10])
    end = log.position
    for record in records[:10]:  # were cut, and remained in the file
        log.append(record)
    log.write()
    log.spoil(end + 16, (0).to_bytes(8, "big"))  # the term
    log.spoil(end + 48 + 56, bytes(8))  # the store time of the record

    offsets, _ = shown(log.root)

    assert end + 48 not in offsets


@pytest.mark.parametrize("last", [2, 30])
def test_a_node_of_a_group_shows_what_is_committed(tmp_path, records, last):
    own = written(tmp_path / "own", records)
    own.write(committed=last)
    other = written(tmp_path / "other", records)
    other.write(committed=last, leader="n1")

    own_offsets, (own_problem,) = shown(own.root)
    other_offsets, (other_problem,) = shown(other.root)

    assert own_offsets == own.offsets
    assert f"entries from {own.offsets[last + 1] - 48} to {own.position}" in own_problem
    assert other_offsets == other.offsets[: last + 1]
    assert f"entries after {other.offsets[last + 1] - 48} are not committed" in other_problem


@pytest.mark.parametrize("name", ["checkpoint", "currterm"])
def test_a_note_that_is_being_replaced_is_read_from_its_copy(name, tmp_path, records):
    log = written(tmp_path, records[:50])
    log.write(committed=30, leader="n1")
    (log.folder / name).rename(log.folder / f"{name}.bak")

    offsets, _ = shown(log.root)

    assert offsets == log.offsets[:31]


@pytest.mark.parametrize("index", ["--5", "9" * 5_000, "32768", "9999999", "-2"])
def test_a_note_of_committed_entries_may_be_wrong(index, tmp_path, records):
    log = written(tmp_path, records[:50])
    (log.folder / "checkpoint").write_text(f"committedIndex={index}\n")

    offsets, problems = shown(log.root)

    assert offsets == log.offsets
    assert problems == ()


def test_a_reader_sees_entries_that_are_added(tmp_path, records):
    log = written(tmp_path, records[:60])

    with reput.open(log.root, "r", plugins=()) as store:
        before = sum(len(batch) for batch in store.scan())
        for record in records[60:]:
            log.append(record)
        log.write()
        after = sum(len(batch) for batch in store.scan())

    assert (before, after) == (60, 120)


def test_records_are_read_by_their_places(tmp_path, records):
    log = written(tmp_path, records)
    places = b"".join(
        offset.to_bytes(8, "big") + len(record).to_bytes(4, "big")
        for offset, record in zip(log.offsets, records, strict=True)
    )

    with reput.open(log.root, "r", plugins=()) as store:
        found = store.log.read_records(places, 12, 40, 1 << 20)
        messages = [store.get(offset) for offset in log.offsets]

    assert [each[88:] for each in found] == [record[88:] for record in records[: len(found)]]
    assert len(found) > 20
    assert [message.physical_offset for message in messages] == log.offsets
