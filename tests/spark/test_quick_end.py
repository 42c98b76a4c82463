"""The end of a log is looked for near the end, and is the one that a look at all of it finds."""

from __future__ import annotations

import struct
import zlib

import pytest
from statefiles import forget_progress

import reput
from reput_arrow.logs import openlog as logs
from reput_arrow.logs.logopening import open_log
from reput_spark import SparkReputError
from reput_spark.reader.options import ReadOptions
from reput_spark.reader.tasks import find_logs, plan_tasks, read_task
from reput_spark.source.schema import arrow_schema, spark_schema

FILE_SIZE = 4 << 20
HEAD_SIZE = 88  # of a record, in front of its body


@pytest.fixture(autouse=True)
def near(monkeypatch):
    """What counts as near is made small, so that small files are large."""
    monkeypatch.setattr(logs, "_BODY_SIZE", 64 << 10)


def store_of(root, bodies):
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(root, plugins=(), config=config) as store:
        for body in bodies:
            store.put(reput.Message("T", body))
    return root


def ends_of(root):
    (place,) = find_logs([str(root)])
    with open_log(place) as slow, open_log(place, quickly=True) as quick:
        return slow.max_physical_offset, quick.max_physical_offset


def offsets_of(root, **options):
    wanted = ReadOptions(paths=(str(root),), **options)
    schema = arrow_schema(spark_schema(["physical_offset"]))
    return [
        offset
        for task in plan_tasks(wanted)
        for rows in read_task(task, wanted, schema)
        for offset in rows.column(0).to_pylist()
    ]


def counted(root):
    """How many records are sound, and where damage is, when every checksum is looked at."""
    wanted = ReadOptions(paths=(str(root),), corrupt="collect", check_crc=True)
    schema = arrow_schema(spark_schema(["physical_offset"], collects=True), collects=True)
    rows = [
        row
        for task in plan_tasks(wanted)
        for batch in read_task(task, wanted, schema)
        for row in batch.to_pylist()
    ]
    places = [row["physical_offset"] for row in rows if row["damage"] is not None]
    return len(rows) - len(places), places


@pytest.mark.parametrize("count", [1, 50, 400, 1_500])
def test_it_is_found_however_much_is_written(tmp_path, count):
    store_of(tmp_path, [b"%d" % number * 300 for number in range(count)])

    slow, quick = ends_of(tmp_path)

    assert slow == quick > 0


def test_bodies_of_zeros_mislead_nobody(tmp_path):
    store_of(tmp_path, [bytes(300_000 if number % 3 else 10) for number in range(12)])

    slow, quick = ends_of(tmp_path)

    assert slow == quick > 2_000_000


def test_only_what_is_near_the_end_is_read(tmp_path, monkeypatch):
    store_of(tmp_path, [b"x" * 3_000 for _ in range(1_000)])
    (place,) = find_logs([str(tmp_path)])
    read = []
    real = logs.OpenLog.window_reader

    def counting(self, **options):
        reader = real(self, **options)
        inner = reader.read

        def note(start, end=None):
            result = inner(start, end)
            read.append(result.batch.end_offset - start)
            return result

        reader.read = note
        return reader

    monkeypatch.setattr(logs.OpenLog, "window_reader", counting)

    with open_log(place, quickly=True) as log:
        assert log.max_physical_offset > 3_000_000

    assert 0 < sum(read) < 400_000


def test_a_torn_end_is_in_front_of_what_is_torn(tmp_path):
    store_of(tmp_path, [b"x" * 3_000 for _ in range(500)])
    whole = offsets_of(tmp_path)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(whole[-1] + 200)
        file.write(bytes(3_000))

    slow, quick = ends_of(tmp_path)

    assert slow == quick == whole[-1]


@pytest.mark.parametrize("damaged", [-100, -2, 5])
@pytest.mark.parametrize("quickly", [True, False])
def test_zeros_over_a_record_do_not_hide_what_is_behind_them(tmp_path, damaged, quickly):
    store_of(tmp_path, [b"%d" % number * 600 for number in range(800)])
    slow, _ = ends_of(tmp_path)
    whole = offsets_of(tmp_path)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(whole[damaged])
        file.write(bytes(512))

    assert ends_of(tmp_path) == (slow, slow)
    assert counted(tmp_path) == (len(whole) - 1, [whole[damaged]])
    with pytest.raises(SparkReputError, match="REPUT_DAMAGED"):
        offsets_of(tmp_path, split_size=1 << 20 if quickly else None)
    left = [offset for offset in whole if offset != whole[damaged]]
    assert offsets_of(tmp_path, corrupt="skip") == left


def test_what_a_writer_is_putting_is_no_damage(tmp_path):
    """Of many records that are put at once, the first one's size is written last."""
    store_of(tmp_path, [b"x" * 600 for _ in range(400)])
    whole = offsets_of(tmp_path)
    forget_progress(tmp_path)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(whole[-9])
        file.write(bytes(4))

    assert ends_of(tmp_path) == (whole[-9], whole[-9])


def test_a_border_that_a_body_forges_is_noticed_and_never_becomes_a_row(tmp_path):
    """Near the end stands a message whose body holds records that say where they stand."""
    store_of(tmp_path, [b"x" * 3_000 for _ in range(300)])
    slow, _ = ends_of(tmp_path)
    body = bytearray([1]) * 250_000
    for place in range(40_000, 240_000, 20_000):
        forged = record_of(b"forged", slow + HEAD_SIZE + place)
        body[place : place + len(forged)] = forged
    store_of(tmp_path, [bytes(body)])
    whole = offsets_of(tmp_path, split_size=None)

    slow, quick = ends_of(tmp_path)

    assert len(whole) == 301
    assert quick < slow  # the body has misled the quick look, or this test shows nothing
    with pytest.raises(SparkReputError, match=r"REPUT_DAMAGED\].*split_size=file"):
        offsets_of(tmp_path)
    assert offsets_of(tmp_path, corrupt="skip") == whole
    assert counted(tmp_path) == (301, [])


def record_of(body, offset):
    """The bytes of a record of the topic ``T``, as the format says."""
    size = 91 + len(body) + 1
    return (
        struct.pack(">iIIiiqqiq", size, 0xDAA320A7, zlib.crc32(body) & 0x7FFFFFFF, 0, 0, 0, offset,
                    0, 0)
        + struct.pack(">4siq4siiq", b"\x7f\0\0\1", 0, 0, b"\x7f\0\0\1", 0, 0, 0)
        + struct.pack(">i", len(body)) + body + b"\x01T" + struct.pack(">h", 0)
    )  # fmt: skip
