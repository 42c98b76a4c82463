"""Does actions, and writes each to the log: in a store that is open, or opened for each action."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import click

from reput.errors import ReputError, StoreLockedError
from reput.files import Disk
from reput.storefiles import refuse_broker_files
from reput_web.actions.action import Action, ActionError, MoveGroup, Sentence
from reput_web.actions.actionlog import ActionLog, LoggedAction
from reput_web.actions.groups import CreateTopic, ResetOffset
from reput_web.actions.messages import ResendDeadLetter, SendMessage
from reput_web.actions.plugins import PluginAction, ResumePlugin, SuspendPlugin
from reput_web.errors import WebError

if TYPE_CHECKING:
    from reput import Store

logger = logging.getLogger(__name__)

ACTIONS: Final[Mapping[str, type[Action]]] = {
    each.name: each
    for each in (
        SendMessage,
        ResendDeadLetter,
        ResetOffset,
        CreateTopic,
        SuspendPlugin,
        ResumePlugin,
    )
}
"""By name."""
_PLUGIN_SECONDS: Final = 10.0
_Run = Callable[[], Sentence]


class Performer(Protocol):
    """Does actions."""

    @property
    def names(self) -> tuple[str, ...]:
        """The actions that it can do."""
        ...

    def perform(self, action: Action, actor: str) -> str:
        """Do an action, and return what was done, in English.

        Raises:
            ActionError: it was not done, or not known whether; the text names the next step.
        """
        ...


@attrs.frozen
class StorePerformer:
    """Acts on a store that this process has open for writing."""

    store: Store
    follow_links: bool = False
    move_group: MoveGroup | None = None
    names: tuple[str, ...] = tuple(ACTIONS)

    def perform(self, action: Action, actor: str) -> str:
        """See `Performer.perform`."""
        log = ActionLog(self.store.root, self.follow_links)
        run = partial(action.run, self.store, self.move_group)
        return _logged(log, action, actor, contextlib.nullcontext(run))


@attrs.frozen
class OpeningPerformer:
    """Opens a store for each action, as its one writer, and closes it again.

    The commands do the same. Between two actions any other process may write the store.
    """

    root: str
    follow_links: bool = False
    names: tuple[str, ...] = tuple(ACTIONS)

    def perform(self, action: Action, actor: str) -> str:
        """See `Performer.perform`."""
        log = ActionLog(self.root, self.follow_links)
        return _logged(log, action, actor, self._opening(action))

    @contextlib.contextmanager
    def _opening(self, action: Action) -> Iterator[_Run]:
        """Open the store, and give what does the action there."""
        with _as_command(self.follow_links):
            if isinstance(action, PluginAction):
                disk = Disk().at(self.root, follow_links=self.follow_links)
                try:
                    refuse_broker_files(self.root, disk, disk.list_names(self.root), appends=True)
                finally:
                    disk.release()
                yield partial(self._change_plugin, action)
                return
            with self._opened(action) as store:
                yield partial(action.run, store, None)

    def _change_plugin(self, action: PluginAction) -> Sentence:
        # The process that writes the store, if there is one, does it.
        from reput_tools.cli.kit import change_plugin

        change_plugin(self.root, action.values["plugin"], action.request, _PLUGIN_SECONDS)
        return action.result

    @contextlib.contextmanager
    def _opened(self, action: Action) -> Iterator[Store]:
        from reput_tools.cli.kit import open_to_write

        if action.opens_groups:
            from reput_consumer.command.storeopening import changing_groups

            with changing_groups(self.root) as (store, _):
                yield store
            return
        with open_to_write(self.root) as store:
            yield store


@contextlib.contextmanager
def _as_command(follow_links: bool) -> Iterator[None]:
    """Have what opens a store for commands see ``--follow-links``, on this thread."""
    context = click.Context(click.Command("browse"), obj={"follow_links": follow_links})
    with context.scope(cleanup=False):
        yield


def _logged(
    log: ActionLog, action: Action, actor: str, opening: AbstractContextManager[_Run]
) -> str:
    """Open the store, and run an action between its two entries in the log.

    The log is a file in the store's directory. Before the opening, nothing may be written there:
    it may be a directory that reput refuses to write, or that another process writes.
    """
    entry = None
    try:
        with opening as run:
            entry = _begun(log, action, actor)
            done = run().filled
    except Exception as error:
        text = _reason(error)
        if entry is not None:
            with contextlib.suppress(ReputError, OSError):  # the first error is the one to show
                log.end(entry, "failed", text)
        logger.warning("action failed name=%s actor=%s error=%s", action.name, actor, text)
        if isinstance(error, ReputError | OSError | ValueError | click.ClickException):
            raise ActionError(text) from error
        raise
    with contextlib.suppress(ReputError, OSError):  # it is done, whatever the log takes
        log.end(entry, "done", done)
    logger.info("action done name=%s actor=%s", action.name, actor)
    return done


def _begun(log: ActionLog, action: Action, actor: str) -> LoggedAction:
    try:
        entry = log.begin(action.name, action.values, actor)
    except (ReputError, OSError) as error:
        text = f"The log of actions cannot be written, so nothing was done: {error}"
        raise ActionError(text) from error
    logger.info("action begins name=%s actor=%s", action.name, actor)
    return entry


def _reason(error: Exception) -> str:
    if isinstance(error, StoreLockedError):
        holder = "Another process"
        if error.holder_pid is not None:
            holder = f"Process {error.holder_pid}"
        return (
            f"{holder} has the store open for writing, so nothing was done. End that process, or "
            "act through its own pages: reput serve STORE --web HOST:PORT --web-write."
        )
    if isinstance(error, WebError):
        return str(error.args[0])
    if isinstance(error, click.ClickException):
        return error.format_message()
    return str(error) or type(error).__name__
