"""`HaKeepAlive`: when a follower reports, and when its master counts as gone; no I/O, no clock."""

from __future__ import annotations

import math

import attrs

from reput_client.remoting import NOTHING_REPORTED, encode_report


@attrs.define(eq=False)
class HaKeepAlive:
    """One connection to a master; times are seconds of one monotonic clock.

    A stock master counts every report as an acknowledgement of all below it. An observer's first
    report names the offset that it wants, as it must; later ones acknowledge nothing. A replica
    reports what it has on disk. The second report follows the first transfer at once, so that the
    master soon knows which of both it is, and not before: of reports that come together a stock
    master takes only the last.
    """

    acknowledge: bool
    report_interval: float
    silence: float
    _reported: int = attrs.field(init=False, default=NOTHING_REPORTED)
    _reported_at: float = attrs.field(init=False, default=0.0)
    _received_at: float = attrs.field(init=False, default=0.0)
    _end_offset: int = attrs.field(init=False, default=0)
    """Of the bytes that came."""
    _is_answered: bool = attrs.field(init=False, default=False)
    """Whether a transfer came after the first report."""

    def begin(self, wanted: int, now: float) -> bytes:
        """Return the first report, which names the offset from which on bytes are wanted."""
        self._reported, self._end_offset = wanted, wanted
        self._reported_at = self._received_at = now
        return encode_report(wanted)

    def heard(self, now: float) -> None:
        """Note that bytes came, though they may be only a part of a transfer."""
        self._received_at = now

    def received(self, end_offset: int) -> None:
        """Note that transfers up to ``end_offset`` came whole."""
        self._end_offset = max(self._end_offset, end_offset)
        if not self._is_answered:
            self._is_answered = True
            self._reported_at = -math.inf

    def report(self, flushed_offset: int, now: float) -> bytes | None:
        """Return the report that is due; None if it is not due.

        Args:
            flushed_offset: physical offset below which the store's log is on disk.
            now: seconds.
        """
        if self.acknowledge and self._reported < flushed_offset <= self._end_offset:
            self._reported = flushed_offset
        elif now - self._reported_at < self.report_interval:
            return None
        self._reported_at = now
        return encode_report(self._reported if self.acknowledge else NOTHING_REPORTED)

    def is_silent(self, now: float) -> bool:
        """Whether no byte came for so long that the master is gone, or the way to it.

        Called only after a read that found nothing: bytes may wait in the socket while the follower
        does something else.
        """
        return now - self._received_at >= self.silence

    def wait_seconds(self, now: float) -> float:
        """Return how long bytes may be waited for until something else is due; more than 0."""
        due = min(self._reported_at + self.report_interval, self._received_at + self.silence) - now
        return max(due, 0.001)
