"""`KillContract`: kills the plugin's process again and again, and checks what it has derived.

    class TestAuditKilled(KillContract):
        plugin_name = "audit"

        def state(self, plugin):
            return plugin.totals()

After each kill the store is opened, the plugin catches up, and its state and its files are compared
with those of a plugin that was given the same log from the beginning, in another store.

One test kills processes at random; the other tries, on one thread, what a kill would leave between
every two file operations of a flush, of closing and of recovering.
"""

from __future__ import annotations

import copy
import itertools
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import reput
from reput.errors import NoReaderError, StoreNotFoundError
from reput.record import Message
from reput_testing.casebudget import is_soak
from reput_testing.contract.basecontract import ContractRules, Outcome
from reput_testing.contract.promises import shows
from reput_testing.crashes.killloop import KillLoop, Sections, kill_count
from reput_testing.crashes.killplan import PluginSource
from reput_testing.crashes.killpoints import KillPoint, KillPoints, copy_store
from reput_testing.disks.failingdisk import QuickDisk
from reput_testing.logs.clock import ManualClock

_LOOK_EVERY = 5
_ENOUGH = 200  # acknowledged messages, some of which the plugin must have acted on


@shows("kill")
class KillContract(ContractRules):
    """A test of one plugin; subclass it and override `state`."""

    kills: ClassVar[int] = 12
    """Writers to kill in an ordinary run; see `reput_testing.crashes.killloop.kill_count`."""
    rebuild_every: ClassVar[int] = 1
    """Number of deaths after which the plugin is compared with one that starts from nothing."""
    kill_points: ClassVar[int] = 2
    """Moments of each story that are tried in an ordinary run; all with ``REPUT_SOAK=1``."""
    beside: ClassVar[Collection[str]] = ()
    """Installed plugins that are in the same stores."""
    beside_config: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The configuration sections of the plugins in `beside`."""

    def test_after_every_kill_it_agrees_with_the_log(self, tmp_path: Path) -> None:
        """Nothing acknowledged is lost, and what was derived agrees with the log."""
        found: dict[str, Any] = {}
        deaths = itertools.count(1)
        (tmp_path / "no messages" / "commitlog").mkdir(parents=True)
        blank = self.built_anew(tmp_path / "no messages", tmp_path / "blank", self._sections())
        fullest = blank

        def check(store: reput.Store) -> None:
            nonlocal fullest
            found["state"] = copy.deepcopy(self.state(store.plugin_objects[self.name]))
            if found["state"] != blank.state:
                fullest = Outcome(found["state"], {}, 0)

        def check_closed(root: Path, config: Sections) -> None:
            if next(deaths) % self.rebuild_every:
                return
            ours = Outcome(found["state"], self.files(root), 0)
            anew = tmp_path / "built anew"
            self.assert_same(ours, self.built_anew(root, anew, config), "after a kill")

        sections = {**self.beside_config, self.name: self.config}
        loop = KillLoop(
            tmp_path,
            self.sources(),
            config=sections,
            check=check,
            check_closed=check_closed,
            messages=self.messages(),
        )
        loop.run(kill_count(self.kills))
        if blank.state is not None and loop.acked_count >= _ENOUGH:
            self.assert_changed(blank, fullest, f"{loop.acked_count} messages of killed writers")

    def test_a_kill_between_any_two_file_operations_costs_nothing(
        self, tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        """Kill in a flush, in closing and in recovering; readers get answers throughout."""
        root = tmp_path / "store"
        root.mkdir()
        disk = KillPoints(root, tmp_path / "killed", beside=self._beside(root))
        messages = [view.to_message() for view in self.log().messages()]
        half, rest = len(messages) // 2, len(messages) * 3 // 4
        with self._kept_open(root, disk) as store:
            before = self._outcome_of(store, root)
            _put(store, messages[:half])
            store.flush()
            _put(store, messages[half:rest])
            with disk.watching():
                store.flush()
            _put(store, messages[rest:])
            self.assert_changed(before, self._outcome_of(store, root), "the messages of log()")
            copy_store(root, tmp_path / "left")
            with disk.watching():
                store.close()
        count = disk.check_each(self._checked_in(tmp_path), self.kill_points)

        left = tmp_path / "left"
        again = KillPoints(left, tmp_path / "again", beside=self._beside(left))
        with again.watching(), self._kept_open(left, again) as store:
            store.wait_dispatched()
            store.flush()
        count += again.check_each(self._checked_in(tmp_path), self.kill_points)
        assert count, "no operation of the disk could be interrupted"
        record_property("kill points", count)

    # ------------------------------------------------------------------ for subclasses

    def look(self, store: reput.Store) -> None:
        """Query the store as a reader beside a writer may; fail if an answer is wrong.

        Reads all queues to their ends if a plugin keeps queues.
        """
        try:
            infos = store.queues()
        except NoReaderError:
            return
        for info in infos:
            at = info.min_queue_offset
            while True:
                result = store.read(info.topic, info.queue_id, at)
                assert not result.holes, f"a valid message is reported as lost: {result.holes}"
                if result.next_queue_offset <= at:
                    break
                at = result.next_queue_offset

    # ------------------------------------------------------------------ kill points

    def _outcome_of(self, store: reput.Store, root: Path) -> Outcome:
        store.wait_dispatched()
        state = copy.deepcopy(self.state(store.plugin_objects[self.name]))
        return Outcome(state, self.files(root), 0)

    def _beside(self, root: Path) -> Callable[[str], None]:
        operations = itertools.count()

        def look(_: str) -> None:
            # Hundreds of openings take seconds.
            if is_soak() or next(operations) % _LOOK_EVERY == 0:
                self._look_beside(root)

        return look

    def _look_beside(self, root: Path) -> None:
        try:
            with reput.open(
                root, "r", plugins=self._plugins(), config=self._sections(), disk=QuickDisk()
            ) as store:
                self.look(store)
        except StoreNotFoundError:
            pass  # there is no store yet

    def _checked_in(self, directory: Path) -> Callable[[Path, KillPoint], None]:
        def check(root: Path, point: KillPoint) -> None:
            self._look_beside(root)
            with self._kept_open(root, QuickDisk()) as store:
                store.wait_dispatched()
                state = copy.deepcopy(self.state(store.plugin_objects[self.name]))
            ours = Outcome(state, self.files(root), 0)
            anew = self.built_anew(root, directory / "built anew", self._sections())
            self.assert_same(ours, anew, f"killed before {point.operation}")

        return check

    def _kept_open(self, root: Path, disk: QuickDisk) -> reput.Store:
        return reput.open(
            root,
            plugins=self._plugins(),
            config=self._sections(),
            disk=disk,
            clock=ManualClock(),
            threads=False,
        )

    def _plugins(self) -> list[Any]:
        return [source.plugin() for source in self.sources()]

    def _sections(self) -> Sections:
        log = {"file_size": self.log().file_size, "grows": self.grows}
        return {**self.beside_config, self.name: self.config, "commitlog": log}

    # ------------------------------------------------------------------ what it is compared with

    def sources(self) -> list[PluginSource]:
        """Return the sources of the plugin and of those in `beside`, for another process."""
        own = PluginSource(self.name)
        if self.plugin_type is not None:
            own = PluginSource.of(self.name, self.plugin_type, self.config)
        return [own, *(PluginSource(name) for name in sorted(self.beside) if name != self.name)]

    def built_anew(self, root: Path, fresh: Path, config: Sections) -> Outcome:
        """Return what new plugins derive from the log below ``root`` alone."""
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(root / "commitlog", fresh / "commitlog")
        plugins = [source.plugin() for source in self.sources()]
        with reput.open(
            fresh, plugins=plugins, config=config, disk=QuickDisk(), threads=False
        ) as store:
            store.wait_dispatched()
            state = copy.deepcopy(self.state(store.plugin_objects[self.name]))
        return Outcome(state, self.files(fresh), 0)


def _put(store: reput.Store, messages: Sequence[Message]) -> None:
    for message in messages:
        store.put(message)
    store.wait_dispatched()
