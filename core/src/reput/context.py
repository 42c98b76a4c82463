"""`StoreContext`: what a plugin may know of the store that it works for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol, cast

import attrs

from reput.disk import Disk
from reput.errors import ConfigError
from reput.queuefloors import QueueFloors
from reput.queuereaches import QueueReaches
from reput.storeaccess import NoStore, StoreAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reput.batch import DispatchBatch
    from reput.losses import Loss
    from reput.progress import Recorded
    from reput.view import MessageView

__all__ = ["LogReader", "StoreAccess", "StoreContext"]


class LogReader(Protocol):
    """The commit log as plugins see it: everything by physical offset, nothing to change.

    Thread-safe.
    """

    @property
    def file_size(self) -> int:
        """Bytes of one commit-log file."""
        ...

    @property
    def min_physical_offset(self) -> int:
        """Where the log begins."""
        ...

    @property
    def max_physical_offset(self) -> int:
        """Where the log ends: behind the last whole record."""
        ...

    def read(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log; fewer than ``size``, or none, where it does not hold them.

        A read never crosses the end of a file, as no record does.
        """
        ...

    def read_message(self, physical_offset: int, size: int = 0) -> MessageView | None:
        """The record at an offset that is known to be a record's; None when there is no such one.

        Args:
            physical_offset: where it begins.
            size: its size where known; anything else found there is then no record.
        """
        ...

    def store_timestamp_at(self, physical_offset: int) -> int:
        """Store time of the record at that offset, ms; -1 when there is none."""
        ...

    def scan(
        self, start: int | None = None, end: int | None = None, *, check_crc: bool = False
    ) -> Iterator[DispatchBatch]:
        """Batches over ``[start, end)``; ``start`` must be a record's or a file's beginning.

        A batch is valid until the next one is taken. One that ends in front of damage tells it by
        its ``finding``; it may have no rows. The next one begins at the next sound record. With
        ``check_crc`` the checksums of bodies are verified, and of whole records that have one.
        """
        ...

    def losses(self, start: int, end: int) -> tuple[Loss, ...]:
        """What the log is known to have lost of ``[start, end)``; cheap where it lost nothing."""
        ...


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
    log: LogReader
    disk: Disk
    clock: Callable[[], int]
    """Now, in ms since the epoch. Never ask the system instead: tests pass clocks of their own."""
    recovery: str = "reput"
    """The store's option of that name. ``"rocketmq"``: what files hold beyond ``progress`` is to be
    believed as far as the log reaches, as RocketMQ believes it."""
    old_root: str = ""
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


def is_safe_name(name: str) -> bool:
    """Whether ``name`` can be one step of a path and nothing else."""
    if not name or name in (".", "..") or "\0" in name or "/" in name:
        return False
    return os.sep not in name and (os.altsep is None or os.altsep not in name)
