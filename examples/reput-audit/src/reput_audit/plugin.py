"""The plugin: its options, its hooks, and a reader of its counts that needs no plugin."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, ClassVar

import attrs
from attrs.validators import in_

import reput
from reput.errors import CorruptFileError, StoreNotFoundError
from reput.files import Disk
from reput_audit._counts import Counts, Tally, decode_counts, encode_counts
from reput_audit.layout import DIRECTORY, FILE_NAME

if TYPE_CHECKING:
    from reput_audit.shards import CountsBuilder

logger = logging.getLogger(__name__)

_PERIODS_MS = {"hour": 3_600_000, "day": 86_400_000}


@attrs.frozen(kw_only=True)
class AuditConfig:
    """Options of the ``audit`` plugin."""

    period: str = attrs.field(default="day", validator=in_(tuple(_PERIODS_MS)))
    """Messages counted together: stored in the same ``"day"`` or ``"hour"``, in UTC."""


@attrs.define(eq=False)
class AuditPlugin(reput.Plugin):
    """Counts messages and the bytes of their bodies, by topic and time of storing."""

    config_type: ClassVar[type] = AuditConfig

    config: AuditConfig = attrs.field(factory=AuditConfig)
    _context: reput.StoreContext = attrs.field(init=False)
    _counts: Counts = attrs.field(init=False)
    _written: bytes = attrs.field(default=b"", init=False)  # content of the file
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        """Load the counts; start with none if the file is missing or damaged."""
        self._context = context
        self._counts, self._written = Counts(_PERIODS_MS[self.config.period]), b""
        path = context.directory(DIRECTORY, FILE_NAME)
        if not context.writable or not context.disk.exists(path):
            return
        data = context.disk.read_file(path)
        try:
            counts = decode_counts(data, path)
        except CorruptFileError as error:
            logger.warning("counting again from the beginning: %s", error)
            return
        if counts.period_ms == self._counts.period_ms:  # else the option was changed meanwhile
            self._counts, self._written = counts, data

    @reput.hookimpl
    def reput_recover(self, progress: int) -> int:
        """Forget what the store may have lost; return from where messages are needed."""
        if not self._context.writable:
            return progress  # a reader shows what the writer has counted
        log = self._context.log
        self._counts.cut(progress, log.file_size)
        self._counts.trim(log.min_physical_offset)
        return self._counts.dispatched_to

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        """Count the messages of ``batch`` not counted before."""
        with self._lock:
            self._counts.add(batch, self._context.log.file_size)

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Replace the file if its content has changed."""
        with self._lock:  # only for the copy: a dispatch must not wait for the disk
            data = encode_counts(self._counts)
        if data != self._written:
            directory = self._context.directory(DIRECTORY)
            self._context.disk.make_directory(directory, durable=True)
            self._context.disk.replace(os.path.join(directory, FILE_NAME), data)
            self._written = data

    @reput.hookimpl
    def reput_trim(self, min_physical_offset: int) -> None:
        """Forget the commit-log files that were removed."""
        with self._lock:
            self._counts.trim(min_physical_offset)

    @reput.hookimpl(optionalhook=True)
    def reput_tools_shards(self, context: reput.StoreContext) -> CountsBuilder:
        """Count splits of the log side by side, in a rebuild by reput-tools."""
        from reput_audit.shards import CountsBuilder

        return CountsBuilder(context, _PERIODS_MS[self.config.period])

    @reput.hookimpl(optionalhook=True)
    def reput_tally_count(self, root: str, topic: str) -> int:
        """Return how many messages of a topic are counted, for the tool reput-tally."""
        counts = read_counts(root)
        return sum(count for (name, _), (count, _) in counts.items() if name == topic)

    @reput.hookimpl
    def reput_report(self) -> dict[str, object] | None:
        """Return totals over all topics."""
        try:
            tallies = self.totals().values()
        except StoreNotFoundError:
            return None  # opened for reading before anything was flushed
        return {
            "messages": sum(count for count, _ in tallies),
            "body_size": sum(size for _, size in tallies),
        }

    def totals(self) -> dict[tuple[str, int], Tally]:
        """Return ``(messages, bytes)`` by ``(topic, start of the period in ms)``; sorted."""
        if not self._context.writable:
            return read_counts(self._context.root)  # read each time: another process may write it
        with self._lock:
            return self._counts.totals()


def read_counts(path: str | os.PathLike[str]) -> dict[tuple[str, int], Tally]:
    """Return `AuditPlugin.totals` of the store at ``path`` as of its last flush.

    Raises:
        StoreNotFoundError: there are no counts at ``path``.
        CorruptFileError: the file is damaged; opening the store repairs it.
    """
    root = os.path.abspath(path)
    file = os.path.join(root, DIRECTORY, FILE_NAME)
    disk = Disk().at(root)
    if not disk.exists(file):
        raise StoreNotFoundError(os.fspath(path), "no counts; open the store with the plugin audit")
    return decode_counts(disk.read_file(file), file).totals()
