"""Who still needs the head of the log: what plugins have not seen, and what they say they need.

What a plugin has seen counts only when its files are on disk: after a crash it is given again what
came behind that.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import attrs

from reput.dispatch.phase import Phase
from reput.log.progress import ProgressFile
from reput.retention.config import DROP, WAIT
from reput.retention.plan import Hold

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from reput.dispatch.calls import Call
    from reput.dispatch.members import Members
    from reput.dispatch.runner import PluginRunner
    from reput.log.writing.commitlog import CommitLog
    from reput.plugin.host.hooktable import PluginHooks
    from reput.retention.config import RetentionConfig

logger = logging.getLogger(__name__)

__all__ = ["LiveHolds", "RecordedHolds"]

_Hook = TypeVar("_Hook")

_UNSEEN = "it has not seen the messages behind"
_STOPPED = f"it does not run (reput resume), and {_UNSEEN}"
_NEEDED = "it needs the messages behind"
_UNKNOWN = "it does not run, so that what it needs is not known"
_NOT_AT_ONCE = frozenset({"reput_open", "reput_flush", "reput_hold", "reput_trim"})


@attrs.define(eq=False)
class LiveHolds:
    """Asks the plugins of a store that is open for writing, and tells them."""

    is_live: ClassVar[bool] = True
    log: CommitLog
    live: Members
    _answers: dict[str, int] = attrs.field(factory=dict)
    """From where on each plugin needs the log, by what it said when it was asked last."""
    _told: dict[str, int] = attrs.field(factory=dict)
    """Where the log began when a plugin was told so."""

    def still(self) -> AbstractContextManager[Any]:
        """While it is held no plugin comes, goes, stops or goes on."""
        return self.live.still()

    def flush(self) -> None:
        """Bring log, plugins and their progress to disk."""
        self.live.plugin_flusher.flush()

    # ------------------------------------------------------------------ asking

    def ask(self, config: RetentionConfig) -> None:
        """Call `reput_hold` of the plugins that run; takes no longer than a stall for each."""
        if config.held != WAIT:
            return
        for each, hook in self._members(lambda hooks: hooks.hold):
            if not each.may_run:
                continue  # what it said last still holds
            # Before it is asked: what it is given from here on it may need, whatever it says.
            reached = self.log.max_physical_offset if each.hooks.dispatch is None else each.position
            call = self._call(each, "reput_hold", hook)
            needed = None if call is None or not call.is_done else self._answer(each, call)
            self._answers[each.name] = 0 if needed is None else min(needed, reached)

    def _answer(self, each: PluginRunner, call: Call) -> int | None:
        """What a plugin needs, the log's end for nothing; None where it is not known."""
        result = call.result
        if call.error is not None:
            return None
        if result is None:
            return self.log.max_physical_offset
        if isinstance(result, int) and not isinstance(result, bool):
            return result
        error = TypeError(f"reput_hold returned {result!r}; a physical offset or None expected")
        each.fail(error)
        return None

    def holds(self, config: RetentionConfig, *, flushed: bool = True) -> list[Hold]:
        """Who needs what, as far as it was asked; to be taken when nobody comes or goes.

        Args:
            config: whom to ask.
            flushed: count what is on disk only; else as if everything were.
        """
        found = []
        if flushed:
            found.append(Hold(self.log.flushed_offset, "", "what is not on disk yet"))
        for each in self.live.board.runners.values():
            runs = each.may_run
            if config.unseen == DROP and not runs and not self._is_inside(each):
                continue
            if each.hooks.dispatch is not None:
                state = _UNSEEN if runs else _STOPPED
                seen = self._seen(each) if flushed else each.position
                found.append(Hold(seen, each.name, state))
            if each.hooks.hold is not None and config.held == WAIT:
                reason = _NEEDED if each.name in self._answers else _UNKNOWN
                found.append(Hold(self._answers.get(each.name, 0), each.name, reason))
        return found

    def drop(self, min_physical_offset: int) -> None:
        """Plugins that do not run have seen, for all that follows, what is going to be removed."""
        for each in self.live.board.runners.values():
            each.drop(min_physical_offset)

    def _seen(self, each: PluginRunner) -> int:
        """Below which offset a plugin will never be given anything again."""
        file = self.live.progress_files.get(each.name)
        if file is None:
            return each.position
        # A file object of our own: the other one is used by the thread that flushes.
        progress = ProgressFile(file.path, file.disk).load()
        return min(each.position, 0 if progress is None else progress.physical_offset)

    def _is_inside(self, each: PluginRunner) -> bool:
        """Whether a plugin is in a call from which it may come back as if nothing had been."""
        return each.phase is Phase.STALLED or bool(each.calls)

    # ------------------------------------------------------------------ telling

    def tell(self) -> list[str]:
        """Call `reput_trim` of plugins that do not know where the log begins; who was not told."""
        low = self.log.min_physical_offset
        not_notified = []
        for each, hook in self._members(lambda hooks: hooks.trim):
            name = each.name
            if not each.may_run:
                self._told.pop(name, None)  # it is opened anew before it goes on
                not_notified.append(name)
            elif self._told.get(name, -1) < low:
                call = self._call(
                    each, "reput_trim", functools.partial(hook, min_physical_offset=low)
                )
                with self.live.still():
                    if not self._is_member(each):
                        self._told.pop(name, None)  # it is opened anew should it come back
                    elif call is None or not call.is_done or call.error is not None:
                        not_notified.append(name)
                    # Names that it removed must be off the disk before nobody tells it again.
                    elif self.live.plugin_flusher.flush_plugin(each, again=True):
                        self._told[name] = low
                    else:
                        not_notified.append(name)
        return not_notified

    def _members(
        self, pick: Callable[[PluginHooks], _Hook | None]
    ) -> list[tuple[PluginRunner, _Hook]]:
        """The plugins that implement a hook; any of them may be taken away while others are asked.

        The lock is not held for the calls: a plugin that hangs would keep all from coming and
        going.
        """
        with self.live.still():
            return [
                (each, hook)
                for each in self.live.board.runners.values()
                if (hook := pick(each.hooks)) is not None
            ]

    def _is_member(self, each: PluginRunner) -> bool:
        """Whether the store still uses a plugin; with the lock."""
        return self.live.board.runners.get(each.name) is each

    def _call(self, each: PluginRunner, hook_name: str, hook: Callable[[], Any]) -> Call | None:
        """Call a hook; None where the plugin is still in an earlier call, or was taken away."""
        patience = self.live.board.stall_seconds
        before = [call for call in each.calls if call.hook in _NOT_AT_ONCE]
        if not all(call.wait_while_advancing(patience) for call in before):
            return None
        with self.live.still():
            # Who takes it away waits, from here on, until it has returned.
            if not self._is_member(each):
                return None
            call = each.start(hook_name, hook)
        if not call.wait_while_advancing(patience):
            each.is_stuck(call)
        elif call.error is not None:
            each.fail(call.error)  # as its own thread does, which may come later than this one
        return call


@attrs.define(eq=False)
class RecordedHolds:
    """What is known of the plugins of a store that is open for reading, which changes nothing."""

    is_live: ClassVar[bool] = False
    runners: Mapping[str, PluginRunner]

    def still(self) -> AbstractContextManager[Any]:
        """No plugin comes or goes here."""
        return contextlib.nullcontext()

    def flush(self) -> None:
        """Nothing was written."""

    def ask(self, config: RetentionConfig) -> None:
        """Nothing yet: `holds` asks."""

    def drop(self, min_physical_offset: int) -> None:
        """Nothing is removed."""

    def tell(self) -> list[str]:
        """Nothing was removed: no plugin is to be told."""
        return []

    def holds(self, config: RetentionConfig, *, flushed: bool = True) -> list[Hold]:
        """Who needs what, by what the last writer has recorded and plugins can tell from files."""
        found = []
        for name, each in self.runners.items():
            runs = each.may_run  # in the hands of the next writer
            if config.unseen == DROP and not runs:
                continue
            if each.hooks.dispatch is not None:
                found.append(Hold(each.position, name, _UNSEEN if runs else _STOPPED))
            if each.hooks.hold is not None and config.held == WAIT:
                found += _asked(name, each, each.hooks.hold)
        return found


def _asked(name: str, each: PluginRunner, hook: Callable[[], Any]) -> list[Hold]:
    if each.is_broken:
        return [Hold(0, name, _UNKNOWN)]
    try:
        needed = hook()
    except Exception as error:  # whatever a plugin raises; nothing is removed here
        return [Hold(0, name, f"what it needs is not known: {error!r}")]
    if needed is None:
        return []
    return [Hold(needed if isinstance(needed, int) else 0, name, _NEEDED)]
