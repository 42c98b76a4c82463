"""What a crash leaves of SQLite's file, who may read it meanwhile, and what a fork must not do."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import threading

import pytest

import reput
from reput.errors import CorruptFileError, DiskFrozenError, PluginError
from reput_counter import CounterPlugin
from reput_table.connections import connect
from reput_table.tablefile import TableFile
from reput_testing import Driver, QuickDisk, place, sample_log, snapshot, traces

QUERY = "SELECT topic, tag, minute, messages, body_size FROM counter ORDER BY 1, 2, 3"


class SmallParts(CounterPlugin):
    """Parts of the log of a few messages each."""

    name = "counter"
    part_size = 1_000


def driver(root, log, **options):
    return Driver(SmallParts(), "counter", root, log, **options)


def counted(root, log):
    with driver(root, log) as made:
        made.catch_up()
        return made.plugin.query(QUERY)


@pytest.mark.shows("table")
@pytest.mark.costly
def test_any_earlier_table_and_any_progress_lead_to_the_same_counts(tmp_path):
    """After a power cut the file is that of any commit, whatever the log and the progress are."""
    log = sample_log()
    ends = range(0, len(log.starts) + 1, 26)
    tables = []
    with driver(tmp_path / "live", log) as live:
        at = 0
        for end in ends:
            live.dispatch_range(at, end)
            live.flush()
            at = end
            tables.append(snapshot(tmp_path / "live"))
    for kept in ends[1:]:
        shorter = log.first(kept)
        expected = counted(tmp_path / f"fresh {kept}", shorter)
        for number, table in enumerate(tables):
            for noted in {0, ends[number], kept}:
                progress = shorter.ends[min(noted, kept) - 1] if noted else 0
                place(table, tmp_path / "crashed")
                with driver(tmp_path / "crashed", shorter, progress=progress, clean=False) as made:
                    made.catch_up()
                    found = made.plugin.query(QUERY)
                assert found == expected, f"{kept} messages, table {number}, progress of {noted}"


def test_only_the_part_is_derived_again_in_which_the_log_was_cut(tmp_path):
    log = sample_log()
    with driver(tmp_path, log) as made:
        made.catch_up()
    last = log.starts[-1]

    with driver(tmp_path, log, progress=last, clean=False) as made:
        start = made.dispatched_to

    assert last - 2_000 < start <= last


def left_in_a_commit(root):
    """Make the files of a writer that was killed while it wrote pages, the journal complete."""
    path = root / "counter" / "table.sqlite"
    dying = sqlite3.connect(path, isolation_level=None)
    dying.execute("PRAGMA cache_size = 1")
    dying.execute("PRAGMA cache_spill = 1")
    dying.execute("BEGIN IMMEDIATE")
    dying.execute('UPDATE "_rows" SET "messages" = 7777, "_check" = 1')
    dying.execute(
        'CREATE TABLE "more" AS WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL '
        "SELECT i + 1 FROM n LIMIT 9999) SELECT i, hex(randomblob(40)) FROM n"
    )
    copy = root.parent / "killed"
    shutil.copytree(root, copy)
    dying.close()
    assert (copy / "counter" / "table.sqlite-journal").stat().st_size > 512
    assert (copy / "counter" / "table.sqlite").read_bytes() != path.read_bytes()
    return copy


@pytest.mark.shows("table")
def test_a_reader_sees_the_last_commit_of_a_writer_that_was_killed_in_the_next(tmp_path):
    log = sample_log()
    expected = counted(tmp_path / "store", log)
    root = left_in_a_commit(tmp_path / "store")
    before = traces(root)

    end = log.max_physical_offset
    with driver(root, log, progress=end, writable=False) as reader:
        found = reader.plugin.query(QUERY)
        assert traces(root) == before, "a reader wrote something"
    with driver(root, log, progress=end, clean=False) as writer:
        written = writer.plugin.query(QUERY)

    assert found == written == expected
    assert not (root / "counter" / "table.sqlite-journal").exists()


def test_a_reader_that_takes_its_time_delays_a_flush_and_fails_nothing(tmp_path):
    log = sample_log()
    with driver(tmp_path, log) as writer:
        writer.dispatch_range(0, 5)
        writer.flush()
        reader = connect(str(tmp_path / "counter" / "table.sqlite"), writer.disk, "ro")
        reader.execute("BEGIN")
        before = reader.execute(QUERY).fetchall()
        writer.catch_up()
        flush = threading.Thread(target=writer.flush)
        flush.start()
        flush.join(0.05)

        assert flush.is_alive()
        assert reader.execute(QUERY).fetchall() == before
        reader.execute("COMMIT")
        flush.join(20)
        assert not flush.is_alive()
        assert reader.execute(QUERY).fetchall() != before
        reader.close()


def grown(log):
    """A log whose rows need many more pages."""
    big = log.copy()
    for number in range(200):
        big.append(reput.Message(f"topic-{number}-{'x' * 100}", b""))
    return big


@pytest.mark.shows("full-disk", "table")
def test_a_full_disk_delays_a_commit_and_loses_no_row(tmp_path, monkeypatch):
    monkeypatch.setattr("reput_table.plugin._PENDING_MAX", 20)  # rows come in several steps
    log = sample_log()
    big = grown(log)
    expected = counted(tmp_path / "sound", big)
    made = driver(tmp_path / "full", log)
    made.open()
    made.dispatch_range(0, 5)
    made.flush()
    connection = made.plugin._file.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    made.log, waited = big, 0

    while made.progress < big.max_physical_offset:
        connection.execute(f"PRAGMA max_page_count = {pages + waited}")
        try:
            made.catch_up(range(0, len(big.starts), 7))
            made.flush()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            waited += 1

    assert waited > 2
    assert made.plugin.query(QUERY) == expected
    made.close()
    with made:
        assert made.plugin.query(QUERY) == expected


@pytest.mark.shows("table")
def test_nothing_counts_after_a_failed_commit_until_it_is_opened_again(tmp_path, monkeypatch):
    log = sample_log()
    expected = counted(tmp_path / "sound", log)
    made = driver(tmp_path / "failed", log)
    made.open()
    made.dispatch_range(0, 5)
    made.flush()
    made.log = grown(log)
    made.catch_up()

    def fail(self):
        raise OSError(errno.EIO, "a flush failed")

    with monkeypatch.context() as patched:
        patched.setattr(TableFile, "commit", fail)
        with pytest.raises(OSError, match="failed"):
            made.flush()
    with pytest.raises(PluginError, match="failed before"):
        made.flush()
    with pytest.raises(PluginError, match="failed before"):
        made.catch_up(start=0)
    made.close()

    made.log = log
    with made:
        made.catch_up()
        assert made.plugin.query(QUERY) == expected


def test_a_call_that_outlives_its_store_writes_nothing(tmp_path):
    log, disk = sample_log(), QuickDisk().at(str(tmp_path / "store"))
    with driver(tmp_path / "store", log) as made:
        made.dispatch_range(0, 5)
    made = driver(tmp_path / "store", log, progress=made.progress, disk=disk)
    made.open()
    made.catch_up()
    before = traces(tmp_path)
    disk.freeze("the test closed it")

    with pytest.raises(DiskFrozenError, match="closed"):
        made.flush()

    made.close()
    assert traces(tmp_path) == before


def test_a_file_that_is_missing_is_said_by_a_reader(tmp_path):
    log = sample_log()
    counted(tmp_path, log)
    (tmp_path / "counter" / "table.sqlite").unlink()

    with (
        driver(tmp_path, log, progress=log.max_physical_offset, writable=False) as reader,
        pytest.raises(CorruptFileError, match=r"table.sqlite.*missing; open the store for writing"),
    ):
        reader.plugin.query(QUERY)


@pytest.mark.shows("table")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # threads of others
def test_a_forked_child_rolls_nothing_back(tmp_path):
    log = sample_log()
    expected = counted(tmp_path / "sound", log)
    made = driver(tmp_path / "store", log)
    made.open()
    made.catch_up()
    made.plugin.query(QUERY)  # the transaction is open, with a journal
    journal = tmp_path / "store" / "counter" / "table.sqlite-journal"
    assert journal.exists()

    child = os.fork()
    if not child:
        try:
            with pytest.raises(PluginError, match="forked"):
                made.plugin.query(QUERY)
            made.plugin = None
        finally:
            os._exit(0 if journal.exists() else 1)

    assert os.waitpid(child, 0)[1] == 0
    assert journal.exists()
    made.flush()
    made.close()
    with driver(tmp_path / "store", log, progress=made.progress, writable=False) as reader:
        assert reader.plugin.query(QUERY) == expected


def test_a_reader_reads_again_where_a_writer_rolls_back_while_it_copies(tmp_path, monkeypatch):
    log = sample_log()
    expected = counted(tmp_path / "store", log)
    root = left_in_a_commit(tmp_path / "store")
    copyfile, end = shutil.copyfile, log.max_physical_offset
    copied = []

    def copy_late(source, target):
        copied.append(source)
        copyfile(source, target)
        if len(copied) == 1:
            with driver(root, log, progress=end, clean=False):
                pass  # a writer, which rolls back and removes the journal

    monkeypatch.setattr("reput_table.connections.shutil.copyfile", copy_late)
    with driver(root, log, progress=end, writable=False) as reader:
        assert reader.plugin.query(QUERY) == expected

    assert len(copied) == 2  # the journal and the file, once; then the file itself
