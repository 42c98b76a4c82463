"""What a write hands from the driver to tasks and back: plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reput.plugin import PutInterest
    from reput_arrow.logwriter.writeoptions import WriteOptions


@attrs.frozen(kw_only=True)
class WritePlan:
    """How the files of one write are made; plain values, sent to executors."""

    root: str
    """The store's directory, absolute."""
    made_root: bool
    """Whether nothing was there before."""
    is_new: bool
    """Whether there was no store."""
    overwrite: bool
    """Whether there must be no store when it is published, either."""
    staging: str
    """Name of the staging directory."""
    options: WriteOptions
    file_size: int
    store_host: bytes
    max_message_size: int
    record_crc: bool
    light_queues: bool
    store_timestamp: int
    """ms, of every record that does not keep one of its own: the time of the plan, or that of the
    log's last record where this is later. Messages put until the write is published may be later.
    """
    is_done: bool
    """Whether a write of its name is published, so that no row is looked at."""
    interests: Mapping[str, PutInterest]
    """By plugin, the messages that it acts on, which are refused."""


@attrs.frozen
class Segment:
    """One log file in the staging directory."""

    name: str
    used_size: int
    """Bytes of its records."""
    record_count: int
    last_position: int
    """File position of its last record."""
    base_offset: int = -1
    """Where it begins in the log, or is to begin there; -1 until it is numbered."""
    mark: int = 0
    """CRC-32 of its last record, by which it is known, once it is numbered."""


@attrs.frozen
class TaskWritten:
    """What the attempt of a task that counts has written; plain values."""

    partition: int
    segments: tuple[Segment, ...] = ()
    queues: tuple[tuple[str, int, int], ...] = ()
    """Topic, queue id and number of messages, by group."""
    begun: bool = False
    """Whether files of it are published, and are not among the segments any more."""

    @property
    def record_count(self) -> int:
        """Records in all."""
        return sum(segment.record_count for segment in self.segments)
