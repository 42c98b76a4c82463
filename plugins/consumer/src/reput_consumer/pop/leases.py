"""`Leases`: what one group has been handed of one queue, and until when: a state without a clock.

    floor                      next
      |  A  .  out  .  .  A  |  not handed out yet
      '----------------------'

Every offset in ``[floor, next)`` is either *open* (out, or to be handed out again in its place) or
counts as acknowledged. So the floor is the lowest open offset, or ``next`` if none is open. The
floor is the group's committed offset. Messages above it come again after a restart, as the rest is
in memory only.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import attrs


@attrs.define(eq=False, repr=False)
class Lease:
    """One message that a group was handed and has not acknowledged."""

    queue_offset: int
    nonce: int
    """Names this handing out: who has another number has lost the message."""
    since: int
    """When it was handed out, ms."""
    until: int | None
    """Until when nobody else gets it, ms; None if it may be handed out again."""
    failures: int = 0
    """How often it expired or was refused in its place."""
    attempt: str = ""
    """The request that it was handed out for, as the client names it."""
    keep: Callable[[], bool] | None = None
    """Whether its consumer still has it; see `PopRequest.keep`."""
    is_moving: bool = False
    """Whether it is being put into the retry topic or to the dead letters."""


@attrs.define(eq=False, repr=False)
class Leases:
    """The leases of one group on one queue. Not thread-safe."""

    next: int
    """The first queue offset that was never handed out."""
    _open: dict[int, Lease] = attrs.field(init=False, factory=dict)
    _lowest: list[int] = attrs.field(init=False, factory=list)
    """Heap of open offsets; some are not open any more."""
    _deadlines: list[tuple[int, int, int]] = attrs.field(init=False, factory=list)
    """Heap of (until, offset, nonce); some are of leases that are gone or were renewed."""
    _again: set[int] = attrs.field(init=False, factory=set)
    """Open offsets that may be handed out again."""

    # ------------------------------------------------------------------ the state

    @property
    def floor(self) -> int:
        """The lowest queue offset that does not count as acknowledged."""
        while self._lowest and self._lowest[0] not in self._open:
            heapq.heappop(self._lowest)
        return self._lowest[0] if self._lowest else self.next

    @property
    def again(self) -> list[Lease]:
        """Leases of messages that are to be handed out again, by queue offset."""
        return [self._open[queue_offset] for queue_offset in sorted(self._again)]

    @property
    def open_count(self) -> int:
        """How many messages are not acknowledged."""
        return len(self._open)

    def out(self) -> list[Lease]:
        """Return the leases of messages that nobody else gets now, by queue offset."""
        found = [lease for lease in self._open.values() if lease.until is not None]
        return sorted(found, key=lambda lease: lease.queue_offset)

    @property
    def is_any_out(self) -> bool:
        """Whether a message is out."""
        return len(self._open) > len(self._again)

    def find(self, queue_offset: int, nonce: int) -> Lease | None:
        """Return the lease that a handle names; None if it is void."""
        lease = self._open.get(queue_offset)
        if lease is None or lease.nonce != nonce or lease.until is None or lease.is_moving:
            return None
        return lease

    # ------------------------------------------------------------------ handing out

    def hand_out(self, queue_offset: int, nonce: int, now: int, until: int, attempt: str) -> Lease:
        """Hand a message out: one that is to come again, or the next one of the queue."""
        lease = self._open.get(queue_offset)
        if lease is None:
            assert queue_offset >= self.next
            lease = self._open[queue_offset] = Lease(queue_offset, nonce, now, until)
            heapq.heappush(self._lowest, queue_offset)
            self.next = queue_offset + 1
        else:
            assert lease.until is None
            lease.nonce, lease.since, lease.until = nonce, now, until
            self._again.discard(queue_offset)
        lease.attempt = attempt
        self._note_deadline(lease)
        return lease

    def pass_over(self, next_offset: int) -> None:
        """Count what lies below ``next_offset`` and was not handed out as acknowledged."""
        self.next = max(self.next, next_offset)

    def renew(self, lease: Lease, nonce: int, until: int) -> None:
        """Move the deadline of a message that is out; its handle is another one if ``nonce`` is."""
        lease.nonce, lease.until = nonce, until
        self._note_deadline(lease)

    def keep_out(self, lease: Lease, nonce: int, until: int | None) -> int:
        """Leave a message out that could not be moved; return its deadline, which it had or gets.

        The deadline that it had may have passed unnoticed while the message was being moved.
        """
        lease.is_moving = False
        assert until is not None
        self.renew(lease, nonce, until)
        return until

    # ------------------------------------------------------------------ what becomes of it

    def finish(self, lease: Lease) -> None:
        """Count a message as acknowledged."""
        if self._open.get(lease.queue_offset) is lease:
            del self._open[lease.queue_offset]
            self._again.discard(lease.queue_offset)

    def put_back(self, lease: Lease, *, has_failed: bool) -> None:
        """Have a message come again in its place; its handle is void."""
        lease.failures += has_failed
        lease.until, lease.nonce, lease.attempt, lease.is_moving = None, 0, "", False
        lease.keep = None
        self._again.add(lease.queue_offset)

    def expired(self, now: int) -> list[Lease]:
        """Return the leases whose deadline has passed, by deadline; each once."""
        found = []
        while self._deadlines and self._deadlines[0][0] <= now:
            until, queue_offset, nonce = heapq.heappop(self._deadlines)
            lease = self.find(queue_offset, nonce)
            if lease is not None and lease.until == until:
                found.append(lease)
        return found

    @property
    def due(self) -> int | None:
        """When the next message expires, ms; None if none is out. It may be some time early."""
        return self._deadlines[0][0] if self._deadlines else None

    def _note_deadline(self, lease: Lease) -> None:
        assert lease.until is not None
        if len(self._deadlines) > 2 * len(self._open) + 64:  # renewals, most of them
            self._deadlines = [
                (each.until, each.queue_offset, each.nonce)
                for each in self._open.values()
                if each.until is not None and each is not lease
            ]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (lease.until, lease.queue_offset, lease.nonce))
