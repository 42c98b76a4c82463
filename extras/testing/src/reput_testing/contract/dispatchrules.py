"""Contract tests about dispatching: at least once, in batches of any size, during a flush."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from reput import DispatchConfig
from reput.errors import ReputError
from reput.record import Message
from reput_testing.contract.basecontract import ContractRules
from reput_testing.contract.promises import shows
from reput_testing.contract.shiftedclock import shifted_clock
from reput_testing.disks.failingdisk import OverlapDisk
from reput_testing.logs import strategies
from reput_testing.logs.smalllog import SmallLog

HOSTILE_TOPICS = (
    b"",
    b".",
    b"..",
    b"../escaped",
    b"../../escaped",
    b"../commitlog",
    b"/",
    b"nested/name",
    b"nul\0byte",
    b"\xff\xfe not text",
    b"new\nline",
    b"x" * 127,
)
"""Names of topics that a damaged or hostile log may hold, though no store accepts them."""

_OVERLAPS = 24  # batches that are dispatched in the middle of a flush


class DispatchRules(ContractRules):
    """Rules for messages that are dispatched.

    If the plugin raises on a message of `log`, `test_any_message_is_taken` shows the error, and all
    other tests of the class are skipped: they would show the same one. Without that test they raise
    it themselves.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def first_error(cls, tmp_path_factory: pytest.TempPathFactory) -> Exception | None:
        """Return what the plugin raises when it gets the messages of `log`."""
        rules = cls()
        try:
            with rules.driver(tmp_path_factory.mktemp("first"), rules.log()) as driver:
                driver.catch_up()
        except Exception as error:  # whatever a plugin raises
            return error
        return None

    @pytest.fixture(autouse=True)
    def _stop_after_the_first_error(
        self,
        request: pytest.FixtureRequest,
        monkeypatch: pytest.MonkeyPatch,
        first_error: Exception | None,
    ) -> None:
        # A store would wait 3 s in each test before it gives a plugin up.
        monkeypatch.setattr(DispatchConfig, "retry_pause_ms", 0)
        if first_error is not None and request.function.__name__ != _FIRST:
            chosen = {(item.parent, item.name) for item in request.session.items}
            if (request.node.parent, _FIRST) not in chosen:
                raise first_error  # else a run of some tests alone would pass
            pytest.skip(f"the plugin raises on a message of log(); {_FIRST} shows the error")

    def test_any_message_is_taken(self, tmp_path: Path) -> None:
        """A log has any bodies and properties: empty, not UTF-8, not JSON."""
        with self.driver(tmp_path, self.log()) as driver:
            driver.catch_up()

    def test_messages_change_its_state(self, tmp_path: Path) -> None:
        """A plugin that ignores every message would keep all other rules."""
        before = self.build(tmp_path / "no messages", SmallLog())
        after = self.build(tmp_path / "messages", self.log())

        self.assert_changed(before, after, "the messages of log()")

    def test_when_it_is_built_changes_nothing(self, tmp_path: Path) -> None:
        """The same log gives the same state and bytes at any time of day, in any year."""
        log = self.log()
        expected = self.build(tmp_path / "now", log)

        with shifted_clock(self.plugin_class):
            found = self.build(tmp_path / "later", log)

        self.assert_same(found, expected, "it was built at another time")

    @shows("caught-up")
    def test_messages_that_come_again_change_nothing(self, tmp_path: Path) -> None:
        """Dispatch is at least once: any messages may come again, alone or with more."""

        def check(directory: Path, example: tuple[SmallLog, list[tuple[int, int]]]) -> None:
            log, steps = example
            count = len(log.starts)
            expected = self.build(directory / "once", log)
            with self.driver(directory / "again", log) as driver:
                at = 0
                for back, ahead in steps:
                    stop = min(at + ahead, count)
                    driver.dispatch_range(max(at - back, 0), stop)
                    at = stop
                driver.catch_up(start=log.starts[max(at - 2, 0)] if count else 0)
                driver.catch_up(start=0)
                found = self.outcome(driver)
            self.assert_same(found, expected, "messages came again")

        steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6)
        self.for_all(st.tuples(self.logs(), steps), tmp_path / "examples", check)
        full = [(7, 5)] * 30
        check(tmp_path / "sample", (self.log(), full))

    def test_where_batches_end_changes_nothing(self, tmp_path: Path) -> None:
        """The same log, cut into other batches, gives the same state and bytes."""

        def check(directory: Path, example: tuple[SmallLog, set[int]]) -> None:
            log, cuts = example
            expected = self.build(directory / "whole", log)
            found = self.build(directory / "cut", log, cuts)
            self.assert_same(found, expected, "batches ended elsewhere")

        self.for_all(self.logs().flatmap(_with_cuts), tmp_path / "examples", check)
        log = self.log()
        check(tmp_path / "sample", (log, set(range(0, len(log.starts), 3))))
        check(tmp_path / "singles", (log, set(range(len(log.starts)))))

    def test_when_it_is_flushed_changes_nothing(self, tmp_path: Path) -> None:
        """Many flushes leave the same files as one flush."""
        log = self.log()
        numbers = set(range(0, len(log.starts), 4))
        expected = self.build(tmp_path / "once", log)

        with self.driver(tmp_path / "often", log) as driver:
            driver.flush()
            driver.catch_up(numbers, flush_before=numbers)
            driver.flush()
            found = self.outcome(driver)

        self.assert_same(found, expected, "it was flushed in between")

    def test_flushing_may_overlap_dispatching(self, tmp_path: Path) -> None:
        """`reput_flush` runs on another thread while messages are dispatched."""
        log = self.log()
        expected = self.build(tmp_path / "in turn", log)
        disk, done = OverlapDisk(), threading.Event()
        errors: list[BaseException] = []

        def flush_until_done(driver: Any) -> None:
            try:
                while not done.is_set():
                    driver.call("reput_flush")
                    disk.reach()
            except BaseException as error:  # raised again on the test's thread
                errors.append(error)
                disk.reach()

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # threads take turns a thousand times as often as usual
        try:
            with self.driver(tmp_path / "at once", log, disk=disk) as driver:
                thread = threading.Thread(target=flush_until_done, args=(driver,))
                disk.hold_up(thread)
                thread.start()
                try:
                    for number, batch in enumerate(log.batches(0, range(len(log.starts)))):
                        if number < _OVERLAPS and not errors:
                            disk.await_flush()  # the others run as the threads do
                        driver.dispatch(batch)
                        disk.dispatched()
                finally:
                    disk.hold_up(None)
                    done.set()
                    thread.join()
                found = self.outcome(driver)
        finally:
            sys.setswitchinterval(interval)

        assert not errors, f"reput_flush failed beside a dispatch: {errors[0]!r}"
        self.assert_same(found, expected, "it was flushed during a dispatch")

    def test_two_stores_share_nothing(self, tmp_path: Path) -> None:
        """Plugin objects of two stores in one process do not affect each other."""
        one, other = self.log(), self.log().first(len(self.log().starts) // 3)
        other.append(Message("elsewhere", b"only here", tags="x", keys="y"))
        expected = [self.build(tmp_path / "1", one), self.build(tmp_path / "2", other)]

        with (
            self.driver(tmp_path / "one", one) as first,
            self.driver(tmp_path / "other", other) as second,
        ):
            for number in range(0, len(one.starts), 5):
                first.dispatch_range(number, min(number + 5, len(one.starts)))
                second.dispatch_range(number, min(number + 5, len(other.starts)))
            found = [self.outcome(first), self.outcome(second)]

        self.assert_same(found[0], expected[0], "another store was open")
        self.assert_same(found[1], expected[1], "another store was open")

    def test_it_writes_into_its_own_files_only(self, tmp_path: Path) -> None:
        """Only what `files_of` names appears in the store's directory."""
        root = tmp_path / "store"

        self.build(root, self.log())

        assert _files_of_others(root, self._owned(root)) == []

    def test_topics_lead_nowhere_out_of_its_files(self, tmp_path: Path) -> None:
        """A topic's name comes from the log; as part of a path it must not lead elsewhere."""
        for number, topic in enumerate(HOSTILE_TOPICS):
            root = tmp_path / str(number) / "a" / "store"
            log = SmallLog()
            log.append(Message("orders", b"before"))
            log.append(Message("x", b"hostile", tags="t", keys="k"), topic=topic)
            log.append(Message("orders", b"behind"))

            driver = self.driver(root, log)
            driver.open()
            try:
                driver.catch_up()
                driver.flush()
            except ReputError:
                pass  # refusing such a log is right, too
            driver.close()

            assert _files_of_others(tmp_path / str(number), self._owned(root)) == [], (
                f"topic {topic!r} led out of the plugin's files"
            )

    def _owned(self, root: Path) -> list[str]:
        return [*self.files_of(str(root))]


def _with_cuts(log: SmallLog) -> st.SearchStrategy[tuple[SmallLog, set[int]]]:
    return st.tuples(st.just(log), strategies.cuts(log))


def _files_of_others(root: Path, owned: list[str]) -> list[str]:
    """Return the files below ``root`` that are not below one of ``owned``."""
    prefixes = tuple(os.path.join(path, "") for path in owned)
    return sorted(
        path
        for directory, _, names in os.walk(root)
        for path in (os.path.join(directory, name) for name in names)
        if path not in owned and not path.startswith(prefixes)
    )


_FIRST = DispatchRules.test_any_message_is_taken.__name__
