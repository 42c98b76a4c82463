"""Contract tests about closing, and about opening again after a close, a kill, a cut or a trim."""

from __future__ import annotations

import copy
import os
import shutil
import threading
from pathlib import Path

from reput.record import Message
from reput_testing.contract.basecontract import ContractRules, spread
from reput_testing.contract.promises import shows
from reput_testing.disks import filedamage
from reput_testing.logs.smalllog import SmallLog


class RecoveryRules(ContractRules):
    """Rules for the next opening."""

    def test_reopening_keeps_the_state(self, tmp_path: Path) -> None:
        """After a clean close all state is there, and messages dispatched again do no harm."""
        log = self.log()
        expected = self.build(tmp_path / "store", log)

        for progress in (expected.progress, log.starts[len(log.starts) // 2], 0):
            found = self.reopen(tmp_path / "store", log, progress)
            self.assert_same(found, expected, f"it was opened again with progress {progress}")

    def test_a_reopened_plugin_goes_on(self, tmp_path: Path) -> None:
        """Messages stored after a reopening are added to the earlier state."""
        log = self.log()
        expected = self.build(tmp_path / "in one go", log)

        progress = 0
        for count in spread(len(log.starts) - 1, 4):
            progress = self.reopen(tmp_path / "in parts", log.first(count), progress).progress
        found = self.reopen(tmp_path / "in parts", log, progress)

        self.assert_same(found, expected, "it was closed and opened between messages")

    @shows("rebuilt")
    def test_deleted_files_are_rebuilt(self, tmp_path: Path) -> None:
        """Without its files the plugin asks for the whole log, whatever progress was recorded."""
        root, log = tmp_path / "store", self.log()
        expected = self.build(root, log)
        for path in self.files_of(str(root)):
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)

        found = self.reopen(root, log, expected.progress)

        self.assert_same(found, expected, "its files were deleted")

    @shows("followed-log")
    def test_a_log_that_was_cut_is_followed(self, tmp_path: Path) -> None:
        """What came from bytes that the log lost is gone, also when other bytes replace them."""
        log = self.log()
        full = self.build(tmp_path / "full", log)
        root = tmp_path / "store"

        for count in spread(len(log.starts) - 1, self.max_cuts):
            filedamage.place(full.files, root)
            shorter = log.first(count)
            found = self.reopen(root, shorter, full.progress, clean=False)
            expected = self.build(tmp_path / f"fresh {count}", shorter)
            self.assert_same(found, expected, f"the log was cut to {count} messages")

            rewritten = _with_other_messages(shorter)
            found = self.reopen(root, rewritten, found.progress)
            expected = self.build(tmp_path / f"rewritten {count}", rewritten)
            self.assert_same(found, expected, f"the log was cut to {count} and written on")

    @shows("caught-up")
    def test_a_killed_process_is_caught_up(self, tmp_path: Path) -> None:
        """After a kill between two flushes, with or without the log's tail, nothing is missing."""
        log = self.log()
        count = len(log.starts)
        expected = self.build(tmp_path / "alive", log)

        third, half = count // 3, count // 2
        for flushed, killed in [(0, 3), (third, half), (half, count), (count, count)]:
            root = tmp_path / f"{flushed} {killed}"
            with self.driver(root, log) as driver:
                driver.dispatch_range(0, flushed)
                driver.flush()
                driver.dispatch_range(flushed, killed)
                files, progress = self.files(root), driver.progress

            filedamage.place(files, root)
            found = self.reopen(root, log, progress, clean=False)
            self.assert_same(found, expected, f"killed {killed - flushed} messages after a flush")

            kept = log.first((flushed + killed) // 2)
            filedamage.place(files, root)
            found = self.reopen(root, kept, progress, clean=False)
            shorter = self.build(tmp_path / f"{flushed} {killed} shorter", kept)
            self.assert_same(found, shorter, "killed, and the log lost its tail")

    def test_what_was_trimmed_is_forgotten(self, tmp_path: Path) -> None:
        """After the log loses its oldest files, what was derived from them goes, the rest stays."""
        whole = self.log()
        trimmed = whole.copy()
        trimmed.trim(2)
        with self.driver(tmp_path / "later", trimmed) as driver:
            driver.catch_up()
            expected = copy.deepcopy(self.trimmed_state(driver.plugin))

        log = whole.copy()
        with self.driver(tmp_path / "live", log) as driver:
            driver.catch_up()
            log.trim(2)
            driver.call("reput_trim", min_physical_offset=log.min_physical_offset)
            live = copy.deepcopy(self.trimmed_state(driver.plugin))
        with self.driver(tmp_path / "live", log, progress=driver.progress) as driver:
            driver.catch_up()
            reopened = copy.deepcopy(self.trimmed_state(driver.plugin))
        built = self.build(tmp_path / "closed", whole)
        with self.driver(tmp_path / "closed", log, progress=built.progress) as driver:
            driver.catch_up()
            while_closed = copy.deepcopy(self.trimmed_state(driver.plugin))

        assert live == expected, "after reput_trim: not the state of one who never saw it"
        assert reopened == expected, "after reput_trim and reopening: another state"
        assert while_closed == expected, "trimmed while it was closed: another state"

    @shows("followed-log")
    def test_a_log_that_was_rewritten_is_followed(self, tmp_path: Path) -> None:
        """Bytes of the log that were dispatched are replaced by other bytes.

        The store notices by a fingerprint, and gives the plugin a progress before those bytes. What
        the plugin's files hold after this progress may come from bytes that are gone.
        """
        log = self.log()
        full = self.build(tmp_path / "full", log)
        root = tmp_path / "store"

        for count in spread(len(log.starts) - 1, self.max_cuts // 3):
            rewritten = _with_other_messages(log.first(count))
            while rewritten.max_physical_offset < log.max_physical_offset:
                rewritten = _with_other_messages(rewritten)
            expected = self.build(tmp_path / f"rewritten {count}", rewritten)
            for progress in (log.starts[count], 0):
                filedamage.place(full.files, root)
                found = self.reopen(root, rewritten, progress, clean=False)
                what = f"the log was rewritten after {count} messages, progress {progress}"
                self.assert_same(found, expected, what)

    def test_reading_only_writes_nothing(self, tmp_path: Path) -> None:
        """A plugin of a read-only store reads the same state, and leaves every file unchanged."""
        root, log = tmp_path / "store", self.log()
        expected = self.build(root, log)
        self.skip_without_files(expected.files)
        longer = _with_other_messages(log)
        shorter = log.first(len(log.starts) // 2)
        before = filedamage.traces(tmp_path)

        for given, clean in [(log, True), (log, False), (longer, False), (shorter, False)]:
            options = {"progress": expected.progress, "clean": clean, "writable": False}
            with self.driver(root, given, **options) as driver:
                state = copy.deepcopy(self.state(driver.plugin))
                if given is log:
                    assert state == expected.state, "opened for reading only: another state"
            assert filedamage.traces(tmp_path) == before, "a read-only opening wrote something"

    def test_a_reader_follows_the_writer(self, tmp_path: Path) -> None:
        """A read-only plugin sees what a writing one has flushed after the reader was opened."""
        root, whole = tmp_path / "store", self.log()
        half = len(whole.starts) // 2
        log = whole.first(half)
        with self.driver(root, log) as writer:
            writer.catch_up()
            writer.flush()
            self.skip_without_files(self.files(root))
            with self.driver(root, log, progress=writer.progress, writable=False) as reader:
                self.state(reader.plugin)
                for view in list(whole.messages())[half:]:
                    log.append(view.to_message())
                writer.catch_up()
                written = self.outcome(writer)
                seen = copy.deepcopy(self.state(reader.plugin))

        assert seen == written.state, "the reader still has the state of its opening"

    def test_reading_only_before_it_ever_wrote_makes_nothing(self, tmp_path: Path) -> None:
        """A read-only store in which the plugin never ran stays unchanged."""
        root, log = tmp_path / "store", self.log()
        root.mkdir()

        with self.driver(root, log, writable=False):
            pass

        assert os.listdir(root) == []

    def test_closing_needs_no_opening(self, tmp_path: Path) -> None:
        """A store that cannot be opened closes plugins that were never opened."""
        self.driver(tmp_path / "store", SmallLog()).close()

        assert not (tmp_path / "store").exists()

    def test_closing_twice_is_closing_once(self, tmp_path: Path) -> None:
        """`reput_close` may be called twice, and without a dispatch before it."""
        log = self.log()
        driver = self.driver(tmp_path / "store", log)
        driver.open()
        driver.catch_up()
        driver.flush()
        driver.close()
        files = self.files(tmp_path / "store")

        driver.close()

        assert self.files(tmp_path / "store") == files
        idle = self.driver(tmp_path / "idle", SmallLog())
        idle.open()
        idle.close()

    def test_closing_leaves_nothing_open(self, tmp_path: Path) -> None:
        """No descriptor, no map and no thread is left after `reput_close`."""
        root, log = tmp_path / "store", self.log()
        before = set(threading.enumerate())

        built = self.build(root, log)
        self.assert_nothing_open(root, "closed")
        with self.driver(root, log, progress=built.progress) as driver:
            self.state(driver.plugin)
        self.assert_nothing_open(root, "opened again and closed")
        with self.driver(root, log, progress=built.progress, writable=False) as driver:
            self.state(driver.plugin)
        self.assert_nothing_open(root, "opened for reading only and closed")

        # One that was there before may end meanwhile: it is not the plugin's.
        left = [each.name for each in threading.enumerate() if each not in before]
        assert left == [], "a thread of the plugin is still alive"


def _with_other_messages(log: SmallLog) -> SmallLog:
    """Return the log with more messages, unlike any in `sample_log`."""
    longer = log.copy()
    for number in range(6):
        topic = "others" if number % 2 else "orders"
        longer.append(Message(topic, b"other %d" % number, tags="other", keys="o"), after_ms=1_000)
    return longer
