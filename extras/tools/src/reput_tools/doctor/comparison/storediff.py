"""What a comparison says: plain values, the same for a terminal and for JSON."""

from __future__ import annotations

from typing import Any

import attrs

LISTED_MAX = 1_000
"""Differences of one kind that are listed; those after them are counted."""


@attrs.frozen(kw_only=True)
class SideFacts:
    """One of the two stores."""

    path: str
    message_count: int
    log_start: int
    log_end: int
    """Where the log ended when reading began."""
    is_open: bool
    """Whether a process had the store open."""
    damaged: tuple[tuple[int, str], ...]
    """Physical offset and reason of damages at which reading had to go on elsewhere."""
    damage_count: int
    problems: tuple[str, ...]
    """What could not be used, and was passed over."""


@attrs.frozen(kw_only=True)
class MissingMessages:
    """Messages of one queue, one after the other, that only one store has."""

    side: str
    """``"a"`` or ``"b"``: the store that has them."""
    topic: str
    queue_id: int
    first: int
    """Queue offset of the first; its place among its like for messages that are in no queue."""
    last: int
    count: int
    in_queue: bool
    """False for prepared and rolled back messages, which are in no queue."""
    physical_offset: int
    """Of the first, in the store that has it."""


@attrs.frozen(kw_only=True)
class ChangedMessage:
    """A message that both stores have, and that is not the same."""

    topic: str
    queue_id: int
    queue_offset: int
    fields: tuple[str, ...]
    """What differs."""
    properties: tuple[str, ...]
    """Names of the properties that differ, if properties do; at most a few."""
    physical_offset_a: int
    physical_offset_b: int


@attrs.frozen
class QueueRange:
    """What a log holds of a queue."""

    min_queue_offset: int
    max_queue_offset: int
    """Queue offset after the last message."""
    message_count: int


@attrs.frozen
class QueueDifference:
    """A queue that does not reach from the same to the same offset."""

    topic: str
    queue_id: int
    a: QueueRange | None
    """None where the log holds none of the queue."""
    b: QueueRange | None


@attrs.frozen
class ValueDifference:
    """A value of a file in ``config/``, or an option, that differs."""

    file: str
    name: str
    """Path of the value in the file, its parts after another."""
    a: str | None
    """As JSON; None where there is none."""
    b: str | None


@attrs.frozen
class FileDifference:
    """A derived file that differs."""

    file: str
    position: int
    """File position of the first byte that differs."""
    reason: str


@attrs.frozen(kw_only=True)
class StoreDiff:
    """All that a comparison says."""

    a: SideFacts
    b: SideFacts
    equal_count: int
    """Messages that both stores have and that are the same."""
    only_in_a: int
    only_in_b: int
    changed_count: int
    fields: dict[str, int]
    """Changed messages by what differs."""
    moved_count: int
    """Messages that are the same but stand elsewhere in the log; no difference unless asked for."""
    missing: tuple[MissingMessages, ...]
    changed: tuple[ChangedMessage, ...]
    queues: tuple[QueueDifference, ...]
    values: tuple[ValueDifference, ...]
    """Offsets, and other files in ``config/``."""
    settings: tuple[ValueDifference, ...]
    files: tuple[FileDifference, ...]
    files_compared: tuple[str, ...]
    """Directories of derived files that were compared."""
    not_compared: tuple[str, ...]
    """What was not compared, and why."""
    seconds: float

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs."""
        counts = (self.only_in_a, self.only_in_b, self.changed_count)
        listed = (self.queues, self.values, self.settings, self.files)
        return not any(counts) and not any(listed)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"equal": self.is_equal, **attrs.asdict(self)}
