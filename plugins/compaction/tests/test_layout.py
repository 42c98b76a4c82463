"""Units, records, notes and file sizes, compared with an encoder of their own and with vectors."""

from __future__ import annotations

import json
import struct

import pytest

import reput
from reput_compaction import CompactionPlugin
from reput_compaction.filepairs.offsetnotelayout import NOTE_DTYPE
from reput_compaction.layout import END_UNIT, UNIT_DTYPE, FileSizes, file_sizes, is_file_name
from reput_testing import Driver, SmallLog

UNIT = struct.Struct(">qiqqqhii")
pytestmark = pytest.mark.sizes(compaction={"log_file_size": 1200, "queue_file_size": 200})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((104_857_600, 10_485_760), (104_857_460, 10_485_746)),
        ((1000, 100), (1012, 92)),
        ((300, 100), (460, 92)),
        ((920, 92), (1012, 92)),  # no rest: one more all the same
        ((950, 92), (920, 92)),  # a rest of less than half
    ],
)
def test_files_have_the_sizes_that_rocketmq_gives_them(asked, expected):
    assert file_sizes(*asked) == expected


def test_the_last_slot_of_a_default_file_is_no_messages():
    assert FileSizes(104_857_460, 10_485_746).unit_count_max == 227_950


def test_an_end_unit_is_that_of_the_format():
    assert bytes.fromhex("ff" * 8 + "00" * 30 + "ff" * 4 + "00" * 4) == END_UNIT
    assert UNIT_DTYPE.itemsize == UNIT.size == 46
    assert NOTE_DTYPE.itemsize == 16


@pytest.mark.parametrize("name", ["0" * 19, "0" * 21, "x" * 20, "9" * 20, "١" * 20, "0" * 19 + " "])
def test_other_names_are_no_files_of_a_pair(name):
    assert not is_file_name(name)


def written(root, log, **config):
    plugin = CompactionPlugin.from_section("compaction", {"topics": ["t"], **config})
    with Driver(plugin, "compaction", root, log) as driver:
        driver.catch_up()
    return root


def test_records_are_the_logs_but_for_their_position_and_units_lead_to_them(tmp_path):
    log = SmallLog()
    for number in range(7):
        log.append(reput.Message("other", b"between"))
        log.append(reput.Message("t", b"x" * (90 + number), 1, tags="TagA", keys="k"))
    views = [view for view in log.messages() if view.topic == "t"]

    written(tmp_path, log)

    size, base, files = 1288, 0, []
    while views:
        records, units, notes = b"", b"", b""
        while views and len(units) < 3 * 46 and len(records) + views[0].size + 8 <= size:
            view = views.pop(0)
            place = base + len(records)
            units += UNIT.pack(
                place, view.size, 2_598_919, view.store_timestamp, view.queue_offset, 1, -1, 0
            )
            notes += struct.pack(">qq", view.queue_offset, view.physical_offset + view.size)
            records += view.record[:28] + struct.pack(">q", place) + view.record[36:]
        if views:
            units += END_UNIT
            records += struct.pack(">iI", size - len(records), 0xCBD43194)
        files.append((f"{base:020d}", records, units, notes))
        base += size
    assert len(files) == 3
    for name, records, units, notes in files:
        path = tmp_path / "compaction" / "compactionLog" / "t" / "1" / name
        assert path.read_bytes() == records.ljust(size, b"\0")
        path = tmp_path / "compaction" / "compactionCq" / "t" / "1" / name
        assert path.read_bytes() == units.ljust(184, b"\0")
        path = tmp_path / "reput" / "compaction" / "t" / "1" / name
        assert path.read_bytes() == notes.ljust(64, b"\0")
    assert len(list((tmp_path / "compaction").rglob("0*"))) == 6 + 0


def test_a_file_ends_where_a_record_would_leave_less_than_eight_bytes(tmp_path):
    def record_size(body):
        return len(next(SmallLog.of([reput.Message("t", body, keys="k")]).messages()).record)

    overhead = record_size(b"")
    for slack, pair_count in ((8, 1), (7, 2)):
        log = SmallLog()
        log.append(reput.Message("t", b"x" * (600 - overhead), keys="k"))
        log.append(reput.Message("t", b"x" * (1288 - slack - 600 - overhead), keys="k"))

        root = written(tmp_path / str(slack), log)

        logs = sorted((root / "compaction" / "compactionLog" / "t" / "0").iterdir())
        assert [path.name for path in logs] == [f"{1288 * n:020d}" for n in range(pair_count)]


def test_a_record_that_fits_into_no_file_is_counted_and_left_out(tmp_path):
    log = SmallLog()
    log.append(reput.Message("t", b"x" * 1500, keys="large"))
    log.append(reput.Message("t", b"x", keys="small"))
    plugin = CompactionPlugin.from_section("compaction", {"topics": ["t"]})

    with Driver(plugin, "compaction", tmp_path, log) as driver:
        driver.catch_up()

        assert plugin.reput_report()["refused_count"] == 1
        assert [view.body for view in plugin.reput_read("t", 0, 0, 9, 9999)] == [b"x"]


def test_the_position_checkpoint_is_the_json_that_rocketmq_writes(tmp_path):
    config = {"compaction": {"topics": ["t"]}}
    with reput.open(
        tmp_path, plugins=["compaction"], config={**LOG, **config}, threads=False
    ) as store:
        for number in range(3):
            store.put(reput.Message("t", b"%d" % number, number % 2, keys="k"))
            store.wait_dispatched()
            store.plugin("compaction").compact()

    path = tmp_path / "compaction" / "position-checkpoint"
    assert path.read_bytes() == (
        b'{\n\t"empty":false,\n\t"queueOffsetMap":{\n\t\t"t_0":1,\n\t\t"t_1":0\n\t}\n}'
    )
    backup = json.loads(path.with_name("position-checkpoint.bak").read_bytes())
    assert backup["queueOffsetMap"] == {"t_0": 0, "t_1": 0}


LOG = {"commitlog": {"file_size": 1 << 16}}
