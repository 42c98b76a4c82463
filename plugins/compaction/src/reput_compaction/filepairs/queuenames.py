"""Check which topics and queues may become directories, and name these directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from reput.errors import MessageIllegalError
from reput.files import OWN_DIRECTORY, is_safe_name
from reput.plugin import StoreContext
from reput.record import check_topic
from reput_compaction.layout import COMPACTING, DIRECTORY, LOG_DIRECTORY, QUEUE_DIRECTORY

if TYPE_CHECKING:
    from reput.files import Disk

_QUEUE_ID_MAX = (1 << 31) - 1


class InStore(NamedTuple):
    """A store that is not open: what `StoreContext` says of its directories."""

    root: str
    disk: Disk

    def directory(self, *names: str) -> str:
        """Return a path below the store's root."""
        return os.path.join(self.root, *names)


class Places(NamedTuple):
    """Directories of one queue."""

    log: str
    queue: str
    notes: str

    @classmethod
    def of(cls, context: StoreContext | InStore, topic: str, queue_id: int) -> Places:
        """Return the directories of a queue whose names were checked."""
        steps = topic, str(queue_id)
        return cls(
            context.directory(DIRECTORY, LOG_DIRECTORY, *steps),
            context.directory(DIRECTORY, QUEUE_DIRECTORY, *steps),
            context.directory(OWN_DIRECTORY, DIRECTORY, *steps),
        )

    @property
    def compacting(self) -> Places:
        """Work area: the directory in which replacing files are made."""
        return Places(*(f"{directory}/{COMPACTING}" for directory in self))


def is_topic(name: object) -> bool:
    """Return whether ``name`` can be the name of a topic and of a directory."""
    try:
        check_topic(name)  # type: ignore[arg-type]
    except MessageIllegalError:
        return False
    return is_safe_name(str(name))


def is_queue_name(name: str) -> bool:
    """Return whether a directory entry can be a queue id."""
    if not (name.isascii() and name.isdigit() and len(name) <= len(str(_QUEUE_ID_MAX))):
        return False
    return str(int(name)) == name and int(name) <= _QUEUE_ID_MAX
