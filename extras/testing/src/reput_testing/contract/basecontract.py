"""`ContractRules`: what a contract class knows of its plugin, and what its tests share."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from reput.plugin import Plugin, PluginHooks, installed, plugin_name
from reput.record import Message
from reput_testing.contract.driver import Driver
from reput_testing.disks import filedamage
from reput_testing.logs import strategies
from reput_testing.logs.smalllog import SmallLog, sample_log


@attrs.frozen
class Outcome:
    """The state and files that a plugin has derived from a log."""

    state: Any
    """Result of `ContractRules.state`."""
    files: Mapping[str, bytes]
    """The plugin's files by name."""
    progress: int
    """Physical offset below which the files are complete."""


class ContractRules:
    """The part of `reput_testing.PluginContract` that has no tests."""

    plugin_name: ClassVar[str | None] = None
    """Name of an installed plugin, as in its entry point; or set `plugin_type`."""
    plugin_type: ClassVar[type[Plugin] | None] = None
    """Class of a plugin that is not installed."""
    config: ClassVar[Mapping[str, Any]] = {}
    """The plugin's section of the configuration. Choose small files: tests make many."""
    undetectable: ClassVar[Collection[str]] = frozenset()
    """Kinds of `reput_testing.FileDamage` that the format of the plugin's files cannot show. New
    formats have no excuse: a checksum shows all of them."""
    undetectable_to_readers: ClassVar[Collection[str]] = frozenset()
    """Further kinds, which a plugin of a read-only store takes for the work of a writer."""
    hook_specifications: ClassVar[Collection[str]] = frozenset({"reput_tools.offline.hookspecs"})
    """Modules of hook specifications of the tools that the plugin answers. The hooks of a tool that
    is not installed are not checked."""
    grows: ClassVar[bool] = False
    """Whether the stores of crash and kill tests have files that grow (`StoreContext.grows`)."""
    same_files: ClassVar[bool] = True
    """Whether files depend on the log alone, byte for byte; False compares states only."""
    max_examples: ClassVar[int] = 20
    """Examples of each test that Hypothesis drives."""
    max_cuts: ClassVar[int] = 12
    """Positions at which a log is cut, in each test that cuts logs."""
    max_damages: ClassVar[int] = 60
    """Damages of each kind that are tried, spread over all files."""

    # ------------------------------------------------------------------ for subclasses

    def state(self, plugin: Any) -> Any:
        """Return what the open ``plugin`` knows: anything that ``==`` compares by value."""
        raise NotImplementedError(f"{type(self).__name__} must say how the plugin's state is read")

    def trimmed_state(self, plugin: Any) -> Any:
        """Return the part of `state` that does not depend on messages that were trimmed."""
        return self.state(plugin)

    def files_of(self, root: str) -> Sequence[str]:
        """Return the files and directories below ``root`` that belong to the plugin alone."""
        return [os.path.join(root, self.name)]

    def messages(self) -> Sequence[Message]:
        """Return messages that the plugin acts on; the kit puts them between its own, in every log.

        Fill this in if the plugin ignores messages, such as those whose bodies are not valid
        JSON: the kit's own messages have any bodies and properties. Each has to fit a file of
        2 KiB. By default what the plugin's ``contract_messages()`` returns, if it has this method,
        as for `reput plugins check`.
        """
        return tuple(getattr(self.plugin_class, "contract_messages", tuple)())

    def hypothesis_settings(self) -> settings:
        """Return Hypothesis' settings: the profile in use, with a bound on the examples."""
        return settings(
            max_examples=self.max_examples,
            deadline=None,  # the first example imports, and machines are shared
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )

    def logs(self) -> SearchStrategy[SmallLog]:
        """Return logs for Hypothesis."""
        own = self.messages()
        some = strategies.messages(plain=True)
        return strategies.logs(message=some | st.sampled_from(own) if own else some)

    def log(self) -> SmallLog:
        """Return the log of the tests without Hypothesis: several files, with all that matters."""
        return sample_log(messages=self.messages())

    # ------------------------------------------------------------------ the plugin

    @property
    def plugin_class(self) -> type[Plugin]:
        """Return the class of the plugin under test."""
        if self.plugin_type is not None:
            return self.plugin_type
        for found in installed():
            if found.name == self.plugin_name:
                return found.load()
        pytest.fail(f"{type(self).__name__}: no plugin named {self.plugin_name!r} is installed")

    @property
    def name(self) -> str:
        """Return the name of the plugin under test."""
        return self.plugin_name or plugin_name(self.plugin_class)

    def plugin(self) -> Plugin:
        """Return a new plugin object."""
        return self.plugin_class.from_section(self.name, self.config)

    # ------------------------------------------------------------------ runs

    def driver(self, root: Path, log: SmallLog, **options: Any) -> Driver:
        """Return a driver of a new plugin object; ``options`` are those of `Driver`."""
        return Driver(self.plugin(), self.name, root, log, **options)

    def build(self, root: Path, log: SmallLog, cuts: Collection[int] = ()) -> Outcome:
        """Run a new plugin over ``log`` in an empty directory, and return the outcome."""
        with self.driver(root, log) as driver:
            driver.catch_up(cuts)
            return self.outcome(driver)

    def reopen(self, root: Path, log: SmallLog, progress: int, **options: Any) -> Outcome:
        """Run a new plugin over ``log`` in a directory with its files, and return the outcome."""
        with self.driver(root, log, progress=progress, **options) as driver:
            driver.catch_up()
            return self.outcome(driver)

    def outcome(self, driver: Driver) -> Outcome:
        """Flush the plugin and return its state and files."""
        driver.flush()
        # A copy: the plugin may return its own dictionary and go on filling it.
        state = copy.deepcopy(self.state(driver.plugin))
        return Outcome(state, self.files(driver.root), driver.progress)

    def files(self, root: str | Path) -> dict[str, bytes]:
        """Return the bytes of the plugin's files by name below ``root``."""
        return filedamage.snapshot(root, self.files_of(os.fspath(root)))

    # ------------------------------------------------------------------ checks

    def assert_changed(self, before: Outcome, after: Outcome, what: str) -> None:
        """Fail if ``what`` has changed nothing: the other rules would compare nothing."""
        if PluginHooks.of(self.name, self.plugin()).dispatch is None:
            pytest.skip("the plugin has no hook reput_dispatch: it derives nothing from messages")
        is_same = before.state == after.state
        if after.state is None:  # then files alone are compared
            is_same = is_same and before.files == after.files
        assert not is_same, (
            f"{what} changed nothing in state(), so no rule compares anything: fill in messages() "
            "of the contract, or contract_messages() of the plugin, with messages that it acts on"
        )

    def assert_same(self, found: Outcome, expected: Outcome, when: str) -> None:
        """Fail unless both outcomes have the same state and the same bytes."""
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
        """Fail if the process still has a file below ``root`` open."""
        held = filedamage.open_files_under(root)
        assert not held, f"{when}: files are still open or mapped"

    def for_all(
        self, strategy: SearchStrategy[Any], directory: Path, check: Callable[[Path, Any], None]
    ) -> None:
        """Call ``check`` with an empty directory and an example of ``strategy``, many times.

        Hypothesis' decorators cannot be on the test itself: several classes inherit the test and
        would share its examples, which Hypothesis refuses.
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
    """Return about ``count`` numbers from 0 to ``last``, both included, ascending."""
    step = max(last // max(count, 1), 1)
    return sorted({*range(0, last + 1, step), last})
