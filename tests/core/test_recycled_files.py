"""Files that were used before: what an older life of the log left behind its end stays there."""

from __future__ import annotations

import struct

import pytest
from damaged_logs import FILE_SIZE, killed, open_store, views

import reput
from reput.files.filenames import file_name
from reput_testing import ManualClock
from reput_testing.logs.clock import NOON

HOUR = 3_600_000


def _log_of(root, bodies, timestamp):
    """Bytes of the first file of a log, and where its records end."""
    with open_store(root, clock=ManualClock(timestamp)) as store:
        ends = [store.put(reput.Message("T", body)).end_offset for body in bodies]
    killed(root)
    return (root / "commitlog" / file_name(0)).read_bytes(), ends


def _bodies(root):
    """What a reader sees, then what a writer sees, which puts one more."""
    with open_store(root, "r") as store:
        seen = [view.body for view in views(store)]
    with open_store(root) as store:
        assert [view.body for view in views(store)] == seen
        store.put(reput.Message("T", b"new"))
    with open_store(root, "r") as store:
        assert [view.body for view in views(store)] == [*seen, b"new"]
    return seen


@pytest.mark.parametrize("gap", range(1, 120, 7))
def test_records_of_an_older_life_at_their_own_offset_do_not_come_back(tmp_path, gap):
    old, _ = _log_of(tmp_path / "old", [b"old %02d" % n * 3 for n in range(20)], NOON)
    young, ends = _log_of(tmp_path / "young", [b"young" * 3, b"y" * gap], NOON + HOUR)
    root = tmp_path / "young"
    (root / "commitlog" / file_name(0)).write_bytes(young[: ends[-1]] + old[ends[-1] :])

    assert _bodies(root) == [b"young" * 3, b"y" * gap]


def test_records_of_another_file_do_not_come_back_even_end_to_end(tmp_path):
    old, old_ends = _log_of(tmp_path / "old", [b"old %02d" % n for n in range(20)], NOON)
    young, ends = _log_of(tmp_path / "young", [b"young"] * 3, NOON)
    recycled = bytearray(old)
    for start in [0, *old_ends[:-1]]:  # they say where they stood in a file further on
        struct.pack_into(">q", recycled, start + 28, start + FILE_SIZE)
    tail = bytes(recycled[old_ends[3] :])
    root = tmp_path / "young"
    whole = (young[: ends[-1]] + tail)[:FILE_SIZE].ljust(FILE_SIZE, b"\0")
    (root / "commitlog" / file_name(0)).write_bytes(whole)

    assert _bodies(root) == [b"young"] * 3


def test_a_tail_that_is_torn_at_any_byte_costs_the_last_message_only(tmp_path):
    bodies = [b"first", b"second", b"the last one"]
    whole, ends = _log_of(tmp_path, bodies, NOON)
    file = tmp_path / "commitlog" / file_name(0)

    for cut in range(ends[1] + 1, ends[2]):
        # The part in front of the cut is new, the part behind it is of another, older record.
        stale = bytes(byte ^ 0x5A for byte in whole[cut : ends[2]])
        file.write_bytes(whole[:cut] + stale + whole[ends[2] :])
        with open_store(tmp_path, "r") as store:
            seen = [view.body for view in views(store)]
        # Behind the body nothing is summed up but lengths.
        is_body_whole = cut >= ends[2] - len(b"\x01T\0\0")
        assert seen[:2] == bodies[:2]
        assert seen[2:] in ([], bodies[2:]) if is_body_whole else seen[2:] == []
