"""`ContractRules`: what a contract class is told about its plugin, and what its tests share."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy

from reput.plugin import Plugin, installed, plugin_name
from reput.record import Message
from reput_testing.contract.driver import Driver
from reput_testing.disks import damage
from reput_testing.logs import strategies
from reput_testing.logs.smalllog import SmallLog, sample_log

__all__ = ["ContractRules", "Outcome"]


@attrs.frozen
class Outcome:
    """What a plugin made of a log."""

    state: Any
    """As `ContractRules.state` gave it."""
    files: Mapping[str, bytes]
    """The plugin's files by name."""
    progress: int
    """Physical offset below which they are complete."""


class ContractRules:
    """The part of `reput_testing.PluginContract` that is not tests."""

    plugin_name: ClassVar[str | None] = None
    """Name of an installed plugin, as its entry point says it; or give `plugin_type`."""
    plugin_type: ClassVar[type[Plugin] | None] = None
    """Class of a plugin that is not installed."""
    config: ClassVar[Mapping[str, Any]] = {}
    """The plugin's section of the configuration. Choose small files: tests make many."""
    undetectable: ClassVar[Collection[str]] = frozenset()
    """Kinds of `reput_testing.Damage` that the format of the plugin's files cannot show. A format
    of your own has no excuse: a checksum shows them all."""
    undetectable_to_readers: ClassVar[Collection[str]] = frozenset()
    """More kinds, which a plugin of a read-only store takes for the work of a writer."""
    same_files: ClassVar[bool] = True
    """Whether files are a pure function of the log, byte for byte; False compares states only."""
    max_examples: ClassVar[int] = 20
    """Examples of each test that Hypothesis drives."""
    max_cuts: ClassVar[int] = 12
    """Places at which a log is cut, in each test that cuts logs."""
    max_damages: ClassVar[int] = 60
    """Damages of each kind that are tried, spread over all files."""

    # ------------------------------------------------------------------ for subclasses

    def state(self, plugin: Any) -> Any:
        """What ``plugin``, which is open, knows: anything that ``==`` compares by value."""
        raise NotImplementedError(f"{type(self).__name__} must say how the plugin's state is read")

    def trimmed_state(self, plugin: Any) -> Any:
        """The part of `state` that a plugin has as well which never saw what was trimmed."""
        return self.state(plugin)

    def files_of(self, root: str) -> Sequence[str]:
        """Files and directories below ``root`` that belong to the plugin alone."""
        return [os.path.join(root, self.name)]

    def messages(self) -> SearchStrategy[Message]:
        """Messages that Hypothesis tries; those that matter to the plugin should come often."""
        return strategies.messages(plain=True)

    def hypothesis_settings(self) -> settings:
        """What Hypothesis is told: the profile in use, bounded."""
        return settings(
            max_examples=self.max_examples,
            deadline=None,  # the first example imports, and machines are shared
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )

    def logs(self) -> SearchStrategy[SmallLog]:
        """Logs that Hypothesis tries."""
        return strategies.logs(message=self.messages())

    def log(self) -> SmallLog:
        """The log of the tests without Hypothesis: several files, some of all that matters."""
        return sample_log()

    # ------------------------------------------------------------------ the plugin

    @property
    def plugin_class(self) -> type[Plugin]:
        """The class of the plugin under test."""
        if self.plugin_type is not None:
            return self.plugin_type
        for found in installed():
            if found.name == self.plugin_name:
                return found.load()
        pytest.fail(f"{type(self).__name__}: no plugin named {self.plugin_name!r} is installed")

    @property
    def name(self) -> str:
        """The name of the plugin under test."""
        return self.plugin_name or plugin_name(self.plugin_class)

    def plugin(self) -> Plugin:
        """A new plugin object."""
        return self.plugin_class.from_section(self.name, self.config)

    # ------------------------------------------------------------------ runs

    def driver(self, root: Path, log: SmallLog, **options: Any) -> Driver:
        """A driver of a new plugin object; ``options`` are those of `Driver`."""
        return Driver(self.plugin(), self.name, root, log, **options)

    def build(self, root: Path, log: SmallLog, cuts: Collection[int] = ()) -> Outcome:
        """What the plugin makes of ``log`` in an empty directory."""
        with self.driver(root, log) as driver:
            driver.catch_up(cuts)
            return self.outcome(driver)

    def reopen(self, root: Path, log: SmallLog, progress: int, **options: Any) -> Outcome:
        """What it makes of ``log`` in a directory where it has been before."""
        with self.driver(root, log, progress=progress, **options) as driver:
            driver.catch_up()
            return self.outcome(driver)

    def outcome(self, driver: Driver) -> Outcome:
        """Flush the plugin and look at what it has."""
        driver.flush()
        # A copy: the plugin may return its own dictionary and go on filling it.
        state = copy.deepcopy(self.state(driver.plugin))
        return Outcome(state, self.files(driver.root), driver.progress)

    def files(self, root: str | Path) -> dict[str, bytes]:
        """Bytes of the plugin's files by name below ``root``."""
        return damage.snapshot(root, self.files_of(os.fspath(root)))

    # ------------------------------------------------------------------ checks

    def assert_same(self, found: Outcome, expected: Outcome, when: str) -> None:
        """Fail unless both have the same state and the same bytes."""
        assert found.state == expected.state, f"{when}: another state"
        if not self.same_files:
            return
        assert sorted(found.files) == sorted(expected.files), f"{when}: other files"
        for name, data in expected.files.items():
            other = found.files[name]
            assert len(other) == len(data), f"{when}: {name} has another size"
            if other != data:
                at = next(i for i, (a, b) in enumerate(zip(other, data, strict=True)) if a != b)
                pytest.fail(f"{when}: {name} differs from byte {at} on")

    def assert_nothing_open(self, root: str | Path, when: str) -> None:
        """Fail when the process still holds a file below ``root``."""
        held = damage.open_files_under(root)
        assert not held, f"{when}: files are still open or mapped"

    def for_all(
        self, strategy: SearchStrategy[Any], directory: Path, check: Callable[[Path, Any], None]
    ) -> None:
        """Call ``check`` with a fresh directory and an example of ``strategy``, many times.

        Not with Hypothesis' decorators on the test itself: a test that several classes inherit
        would share its examples among them, which Hypothesis refuses.
        """
        count = 0

        def example(value: Any) -> None:
            nonlocal count
            count += 1
            check(directory / str(count), value)

        self.hypothesis_settings()(given(strategy)(example))()

    def skip_without_files(self, files: Mapping[str, bytes]) -> None:
        """Skip a test that needs the plugin to have files."""
        if not files:
            pytest.skip("the plugin keeps nothing on disk")


def spread(last: int, count: int) -> list[int]:
    """About ``count`` numbers from 0 to ``last``, both included, ascending."""
    step = max(last // max(count, 1), 1)
    return sorted({*range(0, last + 1, step), last})
