"""`reput verify` on damaged logs: every record, every file, the order of records."""

from __future__ import annotations

import itertools
import shutil
import struct
import zlib

import pytest
from statefiles import forget_progress
from verifiedstores import (
    FILE_SIZE,
    START,
    bad,
    checked,
    fifo,
    flip_log,
    kinds,
    log_file,
    only,
    own_store,
    places,
)

import reput
from reput import Message
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.verdict import verdict_of


@pytest.mark.parametrize(
    ("byte", "kind"),
    [
        (0, "log.bad-size"),
        (3, "log.length-mismatch"),
        (6, "log.bad-magic"),
        (11, "log.body-crc"),
        (35, "log.physical-offset"),
        (87, "log.length-mismatch"),
        (100, "log.body-crc"),
    ],
)
def test_a_changed_byte_of_a_record_is_a_loss_that_is_named(byte, kind, root):
    place, topic, queue_id, queue_offset = places(root)[50]
    flip_log(root, place + byte)

    report = checked(root)

    assert kinds(report) == [kind]  # and nothing of what was derived from the record
    found = only(report, kind)
    assert found.severity is Severity.LOSS
    assert (found.file, found.position) == (
        f"commitlog/{log_file(root, place).name}",
        place % FILE_SIZE,
    )
    assert found.physical_offset == place
    (message,) = found.messages
    assert (message.topic, message.queue_id, message.queue_offset) == (
        topic,
        queue_id,
        queue_offset,
    )
    assert report.exit_code == 8


@pytest.mark.costly
def test_all_damages_are_listed_also_by_several_processes(root):
    wanted = {place for place, *_ in places(root)[5:110:15]}
    for place in wanted:
        flip_log(root, place + 100)

    one, many = checked(root, jobs=1), checked(root, jobs=2)

    assert {each.physical_offset for each in one.findings} == wanted
    assert one.findings == many.findings
    assert one.not_checked == many.not_checked


def test_a_missing_file_names_the_messages_that_queues_know_of_it(root):
    gone = {each for each in places(root) if FILE_SIZE <= each[0] < 2 * FILE_SIZE}
    log_file(root, FILE_SIZE).unlink()

    report = checked(root)

    assert kinds(report) == ["log.missing-file"]
    found = only(report, "log.missing-file")
    assert (found.file, found.size) == (f"commitlog/{FILE_SIZE:020d}", FILE_SIZE)
    assert found.message_count == len(gone)
    assert {(each.topic, each.queue_id, each.queue_offset) for each in found.messages} <= {
        each[1:] for each in gone
    }


def test_a_short_file_loses_what_stood_in_its_rest(root):
    path = log_file(root, FILE_SIZE)
    path.write_bytes(path.read_bytes()[:9_000])
    gone = list(units_of_rest(root, 9_000))

    report = checked(root)

    # The record that the cut goes through is a part of the finding, and none of its own.
    assert kinds(report) == ["log.short-file"]
    found = only(report, "log.short-file")
    assert found.position + found.size == FILE_SIZE
    assert 9_000 - 2_000 < found.position <= 9_000
    assert found.found == "end of file at byte 9000"
    assert found.message_count == len(gone)


def units_of_rest(root, size):
    """Yield units of messages that stood, whole or in part, after the second file's first bytes."""
    for queue in (root / "consumequeue").rglob("0" * 20):
        data = queue.read_bytes()
        for offset, length, _ in struct.iter_unpack(">qiq", data):
            if (
                length
                and FILE_SIZE <= offset < 2 * FILE_SIZE
                and offset + length > FILE_SIZE + size
            ):
                yield offset


def test_a_doubled_a_renamed_and_a_strange_file_are_told(root):
    last = max((root / "commitlog").iterdir())
    double = root / "commitlog" / f"{int(last.name) + FILE_SIZE:020d}"
    shutil.copy(log_file(root, 0), double)
    (root / "commitlog" / "notes.txt").write_text("hello")
    (root / "odd").mkdir()

    report = checked(root)

    # No reader opens a log with two files of one name.
    assert kinds(report) == ["log.doubled-file", "log.strange-file", "store.unreadable"]
    assert only(report, "log.doubled-file").file == f"commitlog/{double.name}"
    assert report.exit_code == 1
    assert report.checked.plugins == ["consumequeue", "index"]


def test_two_files_that_were_swapped_are_told(root):
    first, second = log_file(root, 0), log_file(root, FILE_SIZE)
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)

    found = [each for each in bad(checked(root)) if each.kind == "log.doubled-file"]

    assert {each.file for each in found} == {f"commitlog/{first.name}", f"commitlog/{second.name}"}


def test_an_empty_last_file_is_no_damage(root):
    last = max((root / "commitlog").iterdir())
    (root / "commitlog" / f"{int(last.name) + FILE_SIZE:020d}").write_bytes(b"")

    report = checked(root)

    assert report.counts == {"log.empty-file": 1}
    assert report.exit_code == 0


def test_a_file_of_another_store_is_damage(root, tmp_path):
    other = own_store(tmp_path / "other", count=60)
    shutil.copy(log_file(other, FILE_SIZE), log_file(root, FILE_SIZE))

    assert kinds(checked(root))


def test_zeros_in_the_middle_are_one_damage(root):
    first, *_, last = [each[0] for each in places(root)[40:44]]
    data = bytearray(log_file(root, first).read_bytes())
    assert log_file(root, first) == log_file(root, last)
    data[first % FILE_SIZE : last % FILE_SIZE] = bytes(last - first)
    log_file(root, first).write_bytes(data)

    found = bad(checked(root))

    assert [(each.physical_offset, each.size) for each in found] == [(first, last - first)]
    assert found[0].message_count == 3


def test_a_log_that_ends_too_early_is_a_loss(tmp_path):
    root = own_store(tmp_path / "store", count=126)
    place = places(root)[-3][0]
    data = bytearray(log_file(root, place).read_bytes())
    data[place % FILE_SIZE :] = bytes(len(data) - place % FILE_SIZE)
    log_file(root, place).write_bytes(data)

    report = checked(root)
    found = {each.kind: each for each in bad(report)}

    assert found["log.end-missing"].severity is Severity.LOSS
    for name in ("consumequeue", "index"):
        lost = found[f"{name}.beyond-log"]
        assert lost.severity is Severity.LOSS
        assert lost.advice.startswith("look for a copy of the log's end")
    assert lost.message_count == 3
    assert {each.part for each in bad(report) if each.suspects} == set()
    assert "disagree" not in verdict_of(report)


# --------------------------------------------------------------------------- order


def changed(root, place, position, form, value):
    """Change a field of a record that no checksum covers."""
    path = log_file(root, place)
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, place % FILE_SIZE + position, value)
    path.write_bytes(data)


def test_a_queue_offset_that_does_not_follow_is_told(root):
    place, topic, queue_id, queue_offset = places(root)[60]
    changed(root, place, 20, ">q", queue_offset + 5)

    report = checked(root)

    gap, double = only(report, "log.queue-gap"), only(report, "log.queue-double")
    assert gap.physical_offset == place
    assert gap.expected.startswith(f"queue offset {queue_offset},")
    assert gap.found == f"queue offset {queue_offset + 5} of {topic}/{queue_id}"
    assert double.found == f"queue offset {queue_offset + 1} of {topic}/{queue_id}"


def test_a_store_time_that_goes_back_is_told(root):
    before, (place, *_) = places(root)[59][0], places(root)[60]
    changed(root, place, 56, ">q", START - 5_000)

    found = only(checked(root), "log.time-order")

    assert found.physical_offset == place
    assert found.found == f"store time {START - 5_000}"
    assert f"the record at {before}" in found.expected


def test_what_a_recorded_loss_left_out_is_no_gap(root):
    place = places(root)[50][0]
    flip_log(root, place + 100)
    forget_progress(root)
    (root / "abort").write_text("")
    with reput.open(root, threads=False) as store:  # fills the damaged record
        store.wait_dispatched()
        recorded = store.losses()

    report = checked(root)

    if recorded:
        assert report.exit_code == 0
        assert set(report.counts) == {"reput.losses"}
    else:  # the opening had no reason to read so far back
        assert kinds(report) == ["log.body-crc"]


# --------------------------------------------------------------------------- deep


def test_bytes_that_no_checksum_covers_are_looked_at_when_asked(root):
    whole = places(root)
    with reput.open(root, mode="r", plugins=()) as store:
        message = store.log.read_message(whole[30][0])
    properties_start = message.places()[-1]
    changed(root, whole[10][0], 36, ">i", 1 << 20)  # flags
    changed(root, whole[20][0], 40, ">q", START + 10**12)  # born
    at = message.record.index(b"\x01", properties_start)
    flip_log(root, whole[30][0] + at, 0x01)  # a separator

    found = {each.kind: each for each in bad(checked(root, deep=True))}

    assert found["log.flags"].physical_offset == whole[10][0]
    assert found["log.times"].physical_offset == whole[20][0]
    assert found["log.properties"].physical_offset == whole[30][0]
    assert found["log.flags"].found == "unknown bits 0x100000"


@pytest.mark.parametrize("broken", [False, True])
def test_compressed_bodies_are_unpacked_when_asked(broken, tmp_path):
    root = tmp_path / "store"
    body = zlib.compress(b"hello" * 1_000)
    small = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(root, plugins=(), threads=False, config=small) as store:
        store.put(Message("t", b"plain"))
        store.put(Message("t", body[:-5] if broken else body, sys_flag=1))

    report = checked(root, deep=True)

    assert kinds(report) == (["log.compressed-body"] if broken else [])
    assert kinds(checked(root)) == []


# --------------------------------------------------------------------------- foreign files


def test_links_and_pipes_are_told_and_not_followed(root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"do not show")
    (root / "index" / "20200101000000000").symlink_to(outside / "secret")
    fifo(root / "consumequeue" / "pipe")
    (root / "config").symlink_to(outside)

    report = checked(root)

    assert {each.file for each in report.findings if each.kind == "store.unsafe"} == {
        "index/20200101000000000",
        "consumequeue/pipe",
        "config",
    }
    assert "do not show" not in str(report.as_json())


@pytest.mark.costly
def test_hostile_bytes_never_raise(root):
    """Each tenth byte of a file is changed, file by file."""
    for number, path in enumerate(sorted(root.rglob("*"))):
        if not path.is_file():
            continue
        data = bytearray(path.read_bytes())
        kept = bytes(data)
        for at in itertools.islice(range(number % 7, len(data), 10), 2_000):
            data[at] ^= 0xA5
        path.write_bytes(data)
        if number % 4 == 0:
            assert checked(root).findings
            path.write_bytes(kept)


def test_a_put_that_a_kill_interrupted_is_no_loss(tmp_path):
    root = own_store(tmp_path / "store", count=126)
    place = places(root)[-1][0]
    changed(root, place, 0, ">i", 0)  # a writer writes the size last
    forget_progress(root)
    (root / "abort").write_text("")

    report = checked(root)

    assert only(report, "log.bad-size").severity is Severity.NOTICE


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 16_384, bytes(16_384)])
def test_a_log_of_one_file_that_is_none_is_looked_at(content, tmp_path):
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(content)

    report = checked(root, deep=True)

    is_empty = not content.strip(b"\0")
    assert (report.exit_code == 0) == is_empty
    assert report.checked.messages == 0


def test_what_could_not_be_compared_by_mishap_is_not_called_healthy(root, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reput_tools.doctor.verification.derivedfiles.run_rebuild", fail)

    report = checked(root)

    assert kinds(report) == ["consumequeue.not-compared", "index.not-compared"]
    assert report.exit_code == 7
    assert "--scratch" in report.findings[0].advice


def test_a_log_file_that_is_too_long_is_told_and_the_rest_is_compared(root):
    last = max((root / "commitlog").iterdir())
    last.write_bytes(last.read_bytes() + bytes(5_000))

    report = checked(root)

    assert kinds(report) == ["log.long-file"]
    assert (report.findings[0].position, report.findings[0].size) == (FILE_SIZE, 5_000)
    assert report.checked.plugins == ["consumequeue", "index"]


@pytest.mark.parametrize("name", ["x", "00000000000000016384", "20231114221402000.bak"])
def test_an_index_file_of_a_name_that_is_none_is_missing(name, root):
    first = min((root / "index").iterdir())
    first.rename(first.with_name(name))

    found = {each.kind: each.file for each in bad(checked(root))}

    assert found == {"index.missing": f"index/{first.name}", "index.extra": f"index/{name}"}


def test_a_queues_file_missing_between_two_says_which_messages_it_led_to(tmp_path):
    root = own_store(tmp_path / "store", count=360)
    files = sorted(path for path in (root / "consumequeue" / "t0" / "0").iterdir())
    assert len(files) == 3  # of twenty units each
    files[1].unlink()

    (found,) = bad(checked(root))

    assert (found.kind, found.file) == ("consumequeue.unit", str(files[1].relative_to(root)))
    assert [each.queue_offset for each in found.messages] == list(range(20, 40))
    assert found.message_count == 20
