"""`StoreContext`: what a plugin may know of the store that it works for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import attrs

from reput.errors import ConfigError
from reput.files.disk import Disk
from reput.files.names import is_safe_name
from reput.log.reading.view import LogView
from reput.log.writing.queuefloors import QueueFloors
from reput.log.writing.queuereaches import QueueReaches
from reput.plugin.access import NoStore, StoreAccess

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.log.losses import Loss
    from reput.log.progress import Recorded

__all__ = ["StoreContext"]


@attrs.frozen(kw_only=True)
class StoreContext:
    """The store as its plugins see it; one object per plugin and opening."""

    plugin: str
    """Name of the plugin that this context was made for."""
    root: str
    """The store's directory."""
    writable: bool
    """False: another process may be writing; write nothing."""
    clean: bool
    """Whether the last writer closed the store; after a crash files may be half-written."""
    log: LogView
    disk: Disk
    clock: Callable[[], int]
    """Now, in ms since the epoch. Never ask the system instead: tests pass clocks of their own."""
    recovery: str = "reput"
    """The store's option of that name. ``"rocketmq"``: what files hold beyond ``progress`` is to be
    believed as far as the log reaches, as RocketMQ believes it."""
    sizes_from: str = ""
    """Of a plugin whose files are built anew in a directory aside: the store that they are for.
    Files keep the sizes that they have there."""
    recorded: Callable[[], Recorded | None] = attrs.field(default=lambda: None, repr=False)
    """How far the plugin's files are complete, read from disk: a read-only store learns from it
    whether a writer is making them again. None where nobody has recorded it."""
    queue_floors: QueueFloors = attrs.field(factory=QueueFloors, repr=False)
    """Where queues go on whose messages the log has lost, for plugins that keep queue offsets. Keep
    there what files say of such a queue before they are cut or removed."""
    queue_reaches: QueueReaches = attrs.field(factory=QueueReaches, repr=False)
    """How far queues went by what the plugin noted before, for one that keeps queue offsets: files
    that are gone do not say that they were there."""
    store: StoreAccess = attrs.field(factory=lambda: cast(StoreAccess, NoStore()), repr=False)
    """To read queues and put messages, for plugins that act; see there when it may be used."""
    note_loss: Callable[[Loss], None] = attrs.field(default=lambda loss: None, repr=False)
    """Notes in the store's ledger what the plugin's files know and the log has lost, before they
    are cut; a read-only store only remembers it. What is noted already is noted once."""
    note_problem: Callable[[str], None] = attrs.field(default=lambda text: None, repr=False)
    """Tells in `reput_open` and `reput_recover` who reads the store, by `reput.Store.problems`, of
    a file that is there and says nothing, so that the plugin passes it over; the text begins with
    the file's path. Does nothing in a store that is open for writing: what a writer passes over is
    a line in the log, as it makes the file again."""
    wake: Callable[[], None] = attrs.field(default=lambda: None, repr=False)
    """Has `reput_work` called soon; cheap, from any thread."""

    def directory(self, *names: str) -> str:
        """Path under the store's root; names that would leave it are refused.

        Raises:
            ConfigError: a name that is empty, ``.`` or ``..``, or holds a separator or NUL.
        """
        for name in names:
            if not is_safe_name(name):
                raise ConfigError(self.plugin, "directory", f"{name!r} would leave the store")
        return os.path.join(self.root, *names)
