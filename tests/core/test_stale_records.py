"""RocketMQ does not clear what it cuts: whoever follows its log must not read that again."""

from __future__ import annotations

import shutil

import pytest

import reput

SECOND = 1_000


@pytest.fixture
def log(tmp_path):
    """Bytes of a log that was cut and goes on, older records behind its end; its later ends."""
    now = [1_700_000_000_000]
    config = {"commitlog": {"file_size": 1 << 20}}

    def put(count, size):
        with reput.open(
            tmp_path / "store", plugins=(), config=config, clock=lambda: now[0]
        ) as store:
            return [store.put(reput.Message("T", b"x" * size)) for _ in range(count)]

    old = put(400, 800)
    path = tmp_path / "store" / "commitlog" / f"{0:020d}"
    stale = path.read_bytes()
    path.write_bytes(stale[: old[150].physical_offset].ljust(1 << 20, b"\0"))
    shutil.rmtree(tmp_path / "store" / "reput")
    now[0] += 60 * SECOND
    new = put(20, 503)
    written = path.read_bytes()

    def cut_at(end):
        path.write_bytes((written[:end] + stale[end:]).ljust(1 << 20, b"\0"))
        shutil.rmtree(tmp_path / "store" / "reput", ignore_errors=True)
        (tmp_path / "store" / "abort").touch()

    return tmp_path / "store", path, written, new, cut_at


def count_of(store):
    return sum(len(batch) for batch in store.scan())


def test_records_behind_the_end_stay_out_when_others_are_appended(log):
    root, path, written, new, cut_at = log
    first, last = new[9].end_offset, new[-1].end_offset
    cut_at(first)

    with reput.open(root, "r", plugins=()) as store:
        assert count_of(store) == 160
        with path.open("r+b") as file:
            file.seek(first)
            file.write(written[first:last])

        assert count_of(store) == 170
        assert store.log.max_physical_offset == last
        assert count_of(store) == 170  # also when it looks again, with nothing new
