"""``--tag``, ``--where`` and ``--until``: which messages a command prints."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.messages.options import tags_of

if TYPE_CHECKING:
    from reput import Store
    from reput.plugin import MessageFilter
    from reput.record import MessageView

_FILTER = "filter"  # the plugin


class FilterOptions(NamedTuple):
    """Conditions that a message has to meet."""

    tags: frozenset[str] | None = None
    """The message has one of these tags; None for any."""
    chosen: MessageFilter | None = None
    until: int | None = None
    """The message was stored then or earlier, ms; None for any time."""

    def __bool__(self) -> bool:
        """Whether there is any condition."""
        return self.tags is not None or self.chosen is not None or self.until is not None

    def matches(self, message: MessageView) -> bool:
        """Whether a message meets all conditions."""
        return (
            (self.until is None or message.store_timestamp <= self.until)
            and self.has_tag(message)
            and (self.chosen is None or self.chosen.matches(message))
        )

    def has_tag(self, message: MessageView) -> bool:
        """Whether a message has one of the tags."""
        return self.tags is None or message.tags in self.tags


def conditions_of(
    store: Store,
    topic: str | None,
    tag: str | None,
    where: str | None,
    until: int | None = None,
) -> FilterOptions:
    """Return the conditions of a command's options.

    Args:
        store: the open store.
        topic: the topic that is read; None for several.
        tag: value of ``--tag``.
        where: value of ``--where``.
        until: value of ``--until``.

    Raises:
        Failure: no plugin compiles ``where``, or it is not a condition.
    """
    return FilterOptions(tags_of(tag), _compiled(store, topic, where), until)


def with_filter(
    path: str, plugins: Sequence[str] | None, where: str | None
) -> Sequence[str] | None:
    """Return plugins for reading a store, with the one that compiles ``where`` if needed.

    Args:
        path: the store's directory.
        plugins: those needed in any case; None for all that the store uses.
        where: the option; None if not given.
    """
    if where is None:
        return plugins
    from reput.errors import CorruptFileError
    from reput.plugin import default_plugins, installed
    from reput_tools.cli.kit.storeplugins import check_store, used_plugins

    if plugins is None:
        used = None
        # A reader can do without damaged records of the store; opening reports them.
        with contextlib.suppress(CorruptFileError, OSError):
            used = used_plugins(check_store(path))
        plugins = tuple(default_plugins() if used is None else used)
    if _FILTER in plugins or all(found.name != _FILTER for found in installed()):
        return plugins
    return (*plugins, _FILTER)  # it needs nothing of the store


def _compiled(store: Store, topic: str | None, where: str | None) -> MessageFilter | None:
    from reput.errors import NoReaderError
    from reput.installhints import install_command

    if where is None:
        return None
    try:
        return store.filter(where, topic=topic)
    except NoReaderError:
        text = f"--where needs the plugin filter: {install_command('filter')}"
        raise Failure(text, ExitCode.UNAVAILABLE) from None
    except ValueError as error:
        reason, *below = str(error).split("\n")
        raise Failure(f"--where: {reason}", ExitCode.USAGE, below) from None
