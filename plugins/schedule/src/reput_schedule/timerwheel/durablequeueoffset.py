"""`DurableQueueOffset`: the queue offset that the timer's checkpoint names."""

from __future__ import annotations

import attrs


@attrs.define(eq=False, repr=False)
class DurableQueueOffset:
    """How far the timer's queue is on the wheel, as far as the log is on disk.

    Messages are put on the wheel before the log is flushed. If the checkpoint counted one that a
    power cut takes, the next message would get its queue offset, and RocketMQ would never put that
    one on the wheel. Guarded by the timer's lock.
    """

    queue_offset: int = 0
    """Next message of the queue that is to be put on the wheel."""
    _end: int = attrs.field(init=False, default=0)
    """Physical offset behind the message before it."""
    _before: tuple[int, int] = attrs.field(init=False, default=(0, 0))
    """Both numbers when the checkpoint was made last."""
    _covered: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._covered = self.queue_offset

    def add(self, queue_offset: int, end: int) -> None:
        """Count messages up to ``queue_offset``, the last of which ends at ``end`` in the log."""
        if queue_offset > self.queue_offset:
            self.queue_offset, self._end = queue_offset, end

    def covered(self, flushed_offset: int) -> int:
        """Return the newest known count of messages that are on disk, for a checkpoint."""
        now = self.queue_offset, self._end
        for queue_offset, end in (now, self._before):
            if end <= flushed_offset:
                self._covered = max(self._covered, queue_offset)
                break
        self._before = now
        return self._covered
