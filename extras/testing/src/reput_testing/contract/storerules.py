"""Contract tests in a whole store, with threads, discovery and manifest."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import reput
from reput_testing.contract.basecontract import ContractRules
from reput_testing.disks import filedamage
from reput_testing.disks.failingdisk import QuickDisk
from reput_testing.logs.clock import ManualClock
from reput_testing.logs.smalllog import SmallLog


class StoreRules(ContractRules):
    """Rules for a store as users open it."""

    def test_a_store_builds_the_same(self, tmp_path: Path) -> None:
        """A store gives the plugin the same state and files as dispatching by hand."""
        log = self.log()
        expected = self.build(tmp_path / "by hand", log)
        root, clock = tmp_path / "store", ManualClock()
        half, count = len(log.starts) // 2, len(log.starts)

        with self.open_store(root, log, clock=clock) as store:
            self.put_all(store, clock, log, 0, half)
        with self.open_store(root, log, clock=clock) as store:
            self.put_all(store, clock, log, half, count)
            assert store.wait_dispatched(timeout=60), "the plugin did not keep up"
            self.assert_running(store)
            state = copy.deepcopy(self.state(store.plugin_objects[self.name]))

        assert state == expected.state, "in a store: another state"
        if self.same_files:
            assert self.files(root) == expected.files, "in a store: other bytes on disk"
        self.assert_nothing_open(root, "the store was closed")

    def test_an_old_store_is_caught_up_with(self, tmp_path: Path) -> None:
        """A plugin that is added to a store gets all messages stored before."""
        log = self.log()
        expected = self.build(tmp_path / "by hand", log)
        root, clock = tmp_path / "store", ManualClock()
        with self.open_store(root, log, clock=clock, plugins=[]) as store:
            self.put_all(store, clock, log, 0, len(log.starts))

        with self.open_store(root, log) as store:
            assert store.wait_dispatched(timeout=60), "the plugin did not keep up"
            self.assert_running(store)
            state = copy.deepcopy(self.state(store.plugin_objects[self.name]))

        assert state == expected.state, "added to an old store: another state"

    def test_a_read_only_store_shows_the_same(self, tmp_path: Path) -> None:
        """Opened with ``mode="r"``, the plugin reads the same state and nothing is written."""
        log, root, clock = self.log(), tmp_path / "store", ManualClock()
        with self.open_store(root, log, clock=clock) as store:
            self.put_all(store, clock, log, 0, len(log.starts))
            store.wait_dispatched(timeout=60)
            expected = copy.deepcopy(self.state(store.plugin_objects[self.name]))
        self.skip_without_files(self.files(root))
        before = filedamage.traces(root)

        with self.open_store(root, log, mode="r") as store:
            found = copy.deepcopy(self.state(store.plugin_objects[self.name]))

        assert found == expected, "opened for reading only: another state"
        assert filedamage.traces(root) == before, "a read-only opening wrote something"
        self.assert_nothing_open(root, "the read-only store was closed")

    # ------------------------------------------------------------------ steps

    def open_store(self, root: Path, log: SmallLog, **options: Any) -> reput.Store:
        """Open a store with the plugin in it; ``options`` are those of `reput.open`."""
        # By name if the plugin is installed, as users do.
        plugins = [self.plugin() if self.plugin_type is not None else self.name]
        config: dict[str, Any] = {"commitlog": {"file_size": log.file_size}}
        if options.setdefault("plugins", plugins):
            config[self.name] = dict(self.config)
        return reput.open(root, config=config, disk=QuickDisk(), **options)

    def put_all(
        self, store: reput.Store, clock: ManualClock, log: SmallLog, first: int, stop: int
    ) -> None:
        """Put messages number ``first`` to ``stop`` of ``log``, each at its own time."""
        for view in list(log.messages())[first:stop]:
            clock.now = view.store_timestamp
            receipt = store.put(view.to_message())
            assert receipt.physical_offset == view.physical_offset, "the store wrote another log"

    def assert_running(self, store: reput.Store) -> None:
        """Fail if the store has suspended the plugin."""
        (state,) = (found for found in store.plugins() if found.name == self.name)
        assert state.last_error is None, f"the store suspended the plugin: {state.last_error}"
