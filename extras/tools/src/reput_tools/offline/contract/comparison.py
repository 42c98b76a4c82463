"""What a plugin is asked when its files differ from rebuilt ones, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.files import Disk
    from reput.log import LogView


@attrs.frozen
class TouchedMessage:
    """A message that damage or a difference touches, as far as it is known; plain values."""

    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    key: str | None = None
    physical_offset: int | None = None
    """Where the message's record begins in the log, bytes."""

    def __str__(self) -> str:
        topic = "?" if self.topic is None else self.topic
        queue = "?" if self.queue_id is None else str(self.queue_id)
        offset = "?" if self.queue_offset is None else str(self.queue_offset)
        key = "" if self.key is None else f" key {self.key}"
        return f"{topic}/{queue}@{offset}{key}"


@attrs.frozen
class Difference:
    """A part of a file that is not what a rebuild from the log gives; plain values.

    What follows `reason` is for explanations to people; a plugin that weighs
    files may leave it out. See `reput_tools_explain`.
    """

    path: str
    """Relative to the store's directory."""
    position: int
    """File position of the first byte that differs; 0 if one of the two files is missing."""
    reason: str
    kind: str = "bytes"
    """``missing`` or ``extra`` for a file that only one of the two sides has, ``order`` for one
    whose name has another place among the names than its contents have, else ``bytes``, or a
    plugin's own short word for what stands there: ``unit``, ``item``, …"""
    size: int = 0
    """Bytes from `position` to the last one that differs; 0 if not known."""
    found: str = ""
    """What stands there, for people; empty if not known."""
    expected: str = ""
    """What follows from the log, likewise."""
    messages: tuple[TouchedMessage, ...] = ()
    """The first of the messages that reads miss, or get wrongly, because of the difference."""
    message_count: int | None = None
    """How many messages these are in all; None if not known."""
    built_path: str = ""
    """The rebuilt file, relative to `Comparison.built`; empty if it has the name of `path`."""
    is_absent: bool = False
    """Whether the store has nothing there, zeros or no file, where the log leads to something."""


@attrs.frozen
class Comparison:
    """The two sets of files that are compared; given to the plugin that they belong to."""

    root: str
    """The store's directory."""
    built: str
    """Directory with the rebuilt files, at the paths that they have below a store's root."""
    log: LogView
    """The log that the files were rebuilt from. Its oldest files may have been removed."""
    disk: Disk
    plugins: frozenset[str]
    """Plugins that the store's manifest names, with their options. Empty for a store that only
    RocketMQ has written, whose options are not known."""
    limit: int = 1
    """Differences that are wanted of each file; more are cut off, which spares finding them."""
    damaged: tuple[tuple[int, int], ...] = ()
    """Ranges of physical offsets whose records cannot be read: the rebuilt files lack what follows
    from them. Ascending."""

    end_offset: int | None = None
    """Physical offset up to which the files were rebuilt; None for all of `log`."""

    @property
    def is_partial(self) -> bool:
        """Whether the log lacks records that the store's files may know: its head, or damage."""
        return self.log.min_physical_offset > 0 or bool(self.damaged)

    def is_lost(self, physical_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which records the log does not have any more.

        Args:
            physical_offsets: ``(n,)`` int64, as the store's files state them.

        Returns:
            ``(n,)`` bool: below the log's beginning, or in one of the ranges `damaged`.
        """
        lost: npt.NDArray[np.bool_] = physical_offsets < self.log.min_physical_offset
        for start, end in self.damaged:
            lost |= (physical_offsets >= start) & (physical_offsets < end)
        return lost

    def touched(self, physical_offset: int, key: str | None = None) -> TouchedMessage:
        """Return what the log says of the message whose record begins at an offset.

        Args:
            physical_offset: where a record should begin.
            key: the key by which the message is meant; its first key when left out.
        """
        message = self.log.read_message(physical_offset)
        if message is None:
            return TouchedMessage(physical_offset=physical_offset)
        keys = message.keys
        return TouchedMessage(
            message.topic,
            message.queue_id,
            message.queue_offset,
            key if key is not None else next(iter(keys), None),
            physical_offset,
        )


@attrs.frozen
class Compared:
    """A plugin's judgement of differences between bytes."""

    differences: tuple[Difference, ...]
    """Differences in what the log determines."""
    not_compared: tuple[str, ...] = ()
    """Parts of the files that the log does not determine, each with the reason."""
    lost: tuple[TouchedMessage, ...] = ()
    """Messages in the ranges `Comparison.damaged` that the plugin's files know: the log cannot
    name them any more. Some of them, where there are very many."""
