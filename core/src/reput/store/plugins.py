"""`StorePlugins`: the part of a store that is about its plugins: who they are, how they do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from reput.dispatch.status import live_state, recorded_state
from reput.errors import (
    NoReaderError,
    PluginError,
    PluginMethodError,
    ReadOnlyStoreError,
    ReputError,
    StoreClosedError,
)
from reput.plugin.interest import PutInterest
from reput.record.plain import text_argument
from reput.store.arguments import names_argument, plugin_argument, table_argument

if TYPE_CHECKING:
    from reput.dispatch.config import DispatchConfig
    from reput.dispatch.members import Members
    from reput.dispatch.phase import PluginState
    from reput.dispatch.records.deadletters import DeadLetter
    from reput.dispatch.records.states import PluginRecords
    from reput.dispatch.runner import PluginRunner
    from reput.log.writing.commitlog import CommitLog
    from reput.plugin.base import Plugin
    from reput.plugin.host.hooktable import PluginHooks
    from reput.plugin.host.pluginset import PlanStep, PluginSet

logger = logging.getLogger(__name__)

__all__ = ["StorePlugins"]

_Hook = TypeVar("_Hook")

_READER: Final = "reput-consumequeue"  # what to install where nothing can read; for an error text


class StorePlugins:
    """What `reput.Store` offers about plugins."""

    root: str
    log: CommitLog

    def __init__(
        self,
        plugins: PluginSet,
        rules: DispatchConfig,
        dispatchers: Mapping[str, PluginRunner],
        versions: Mapping[str, str],
        records: PluginRecords,
        live: Members | None,
    ) -> None:
        self._closed = False
        self._rules = rules
        self._dispatchers = dispatchers
        self._versions = versions
        self._records = records
        self._live = live
        self._loop = live.loop if live is not None else None
        self._use(plugins)
        if live is not None:
            live.after_change = self._use

    def _use(self, plugins: PluginSet) -> None:
        self._plugins = plugins
        self._put_hooks = self._usable(lambda hooks: hooks.put)
        self._put_interests = {
            name: _interest_of(name, plugins.plugins.get(name)) for name, _ in self._put_hooks
        }
        self._readers = self._usable(lambda hooks: hooks.read)
        self._methods, self._refused_methods = self._offered_methods()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method that a plugin offers; asked only for what the store itself does not have."""
        if name.startswith("_"):
            raise AttributeError(name)  # also while the store is not made yet
        method = self._methods.get(name)
        if method is None:
            self._refuse_of_broken(name)
            reason = self._refused_methods.get(name)
            active = ", ".join(self._plugins.plugins) or "none"
            raise AttributeError(
                f"neither the store nor one of its plugins ({active}) has {name!r}"
                + (f": {reason}" if reason else "")
            )
        return method

    def _refuse_of_broken(self, method: str) -> None:
        """Raise where the method may be one of a plugin that could not be opened."""
        for name, _ in self._plugins.having(lambda hooks: hooks.methods):
            each = self._dispatcher(name)
            if each is not None and each.is_broken:
                text = f"it offers nothing, {method!r} included, for it could not be opened"
                raise PluginMethodError(name, f"{text}: {each.last_error}")

    def _offered_methods(self) -> tuple[dict[str, Callable[..., Any]], dict[str, str]]:
        """What plugins add to the store, by name, and what was refused, with the reason."""
        found: dict[str, Callable[..., Any]] = {}
        refused: dict[str, str] = {}
        for plugin, hook in self._usable(lambda hooks: hooks.methods):
            try:
                offered = dict(hook())
            except Exception as error:  # whatever a plugin raises
                logger.error("methods not offered plugin=%s error=%r", plugin, error)
                continue
            for name, method in offered.items():
                if hasattr(type(self), name) or name in found or not callable(method):
                    refused[name] = f"plugin {plugin!r} cannot offer it, the name is taken"
                    logger.error("method not offered plugin=%s name=%r", plugin, name)
                else:
                    found[name] = method
        return found, refused

    def _usable(self, hook: Callable[[PluginHooks], _Hook | None]) -> list[tuple[str, _Hook]]:
        """Implementations of a hook of the plugins that could be opened; see `PluginSet.having`."""
        return [
            (name, function)
            for name, function in self._plugins.having(hook)
            if (each := self._dispatcher(name)) is not None and not each.is_broken
        ]

    def _dispatcher(self, name: str) -> PluginRunner | None:
        """How a plugin is driven; None where it was taken away a moment ago."""
        return self._dispatchers[name] if self._loop is None else self._loop.board.runners.get(name)

    @property
    def plugin_objects(self) -> Mapping[str, Any]:
        """The active plugins' objects by name, in dispatch order."""
        return dict(self._plugins.plugins)

    def plugins(self) -> list[PluginState]:
        """State, progress, lag and figures of the active plugins, in dispatch order.

        In a read-only store they are those that the last writer recorded.
        """
        states = []
        for name in self._plugins.plugins:
            version = self._versions.get(name, "")
            each = self._dispatcher(name)
            if each is None:
                continue
            if self._loop is not None:
                states.append(live_state(each, self._loop, self.log, self._rules, version))
                continue
            record = self._records.load(name)
            position = each.position if each.hooks.dispatch else self.log.max_physical_offset
            states.append(
                recorded_state(
                    name, position, each.last_error, record, self.log, self._rules, version
                )
            )
        return states

    def dispatched_beside(self, plugin: str) -> int:
        """Physical offset below which nothing comes to a plugin any more; for that plugin."""
        each = self._dispatcher(plugin)
        return 0 if each is None else each.position

    def plan(self) -> list[PlanStep]:
        """Who is given a batch when, and who needs whom, in dispatch order."""
        return self._plugins.plan()

    def add_plugin(self, plugin: str | Plugin, options: Mapping[str, Any] | None = None) -> str:
        """Use one plugin more, from now on and at every later opening; its name.

        It begins at the log's first message, or where it stopped when it was removed, and
        catches up beside the others.

        Args:
            plugin: the name of an installed plugin, or a plugin object.
            options: its section of the configuration.

        Raises:
            PluginError: it is active already, not installed, cannot be ordered or opened.
            ConfigError: a wrong option.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
            TypeError: neither a name nor an object; or ``options`` that are no mapping.
        """
        live = self._writing()
        return live.add(plugin_argument("plugin", plugin), table_argument("options", options))

    def remove_plugin(self, plugin: str) -> None:
        """Use a plugin no more, from now on; its files and its progress stay.

        Raises:
            PluginError: it is not active, another one requires it, or it hangs in a call.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().remove(text_argument("plugin", plugin))

    def suspend_plugin(self, plugin: str) -> None:
        """Give a plugin no messages until it is resumed, also after the store was closed.

        Raises:
            PluginError: it is not active.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().suspend(text_argument("plugin", plugin))

    def resume_plugin(self, plugin: str) -> None:
        """Open a plugin anew that was suspended, failed or halted everything; it catches up.

        Raises:
            PluginError: it is not active, hangs in a call, or cannot be opened.
            ReadOnlyStoreError: the store was opened with ``mode="r"``.
        """
        self._writing().resume(text_argument("plugin", plugin))

    def dead_letters(self, plugin: str) -> list[DeadLetter]:
        """Messages that a plugin failed on and that its policy ``"skip"`` passed over.

        Raises:
            PluginError: it is not active.
        """
        plugin = text_argument("plugin", plugin)
        self._used("plugin", [plugin])
        from reput.dispatch.records.deadletters import DeadLetterFile

        return DeadLetterFile.of(self.root, plugin, self._records.disk).read()

    def _used(self, argument: str, names: Any) -> set[str]:
        """Names of plugins that the store uses, as a caller gave them."""
        chosen = set(names_argument(argument, names))
        unknown = sorted(chosen - self._plugins.plugins.keys())
        if unknown:
            known = ", ".join(self._plugins.plugins) or "none"
            raise PluginError(unknown[0], f"the store does not use it; it uses {known}")
        return chosen

    def _writing(self) -> Members:
        self._check_open()
        if self._live is None:
            raise ReadOnlyStoreError(
                "store", None, None, 'it was opened with mode="r"; open it with mode="w"'
            )
        return self._live

    def _no_reader(
        self, hook: Callable[[PluginHooks], object | None], operation: str
    ) -> ReputError:
        """Why nobody answers: no such plugin, or one that could not be opened."""
        for name, _ in self._plugins.having(hook):
            each = self._dispatcher(name)
            if each is None:
                continue
            error = each.last_error
            return PluginError(
                name, f"it does not answer {operation}, for it could not be opened: {error}"
            )
        return NoReaderError(operation, _READER)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.root)


def _interest_of(name: str, plugin: Plugin | None) -> PutInterest | None:
    """Which puts a plugin wants to see; all of them where it does not say."""
    try:
        found = None if plugin is None else plugin.put_interest
    except Exception as error:  # whatever a plugin raises: it is shown everything then
        logger.error("interest in puts not known plugin=%s error=%r", name, error)
        return None
    return found if isinstance(found, PutInterest) else None
