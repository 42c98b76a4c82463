"""Errors of following a broker."""

from __future__ import annotations

import attrs

from reput.errors import ReputError


class FollowError(ReputError):
    """A broker cannot be followed."""


@attrs.define(eq=False, slots=False)
class BrokerError(FollowError):
    """A broker or a name server cannot be reached, or its answer cannot be used."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"


@attrs.define(eq=False, slots=False)
class FeedError(FollowError):
    """Bytes of a master that a replica does not append."""

    physical_offset: int
    """Where these bytes stand in the master's log."""
    reason: str

    def __str__(self) -> str:
        return f"physical offset {self.physical_offset}: {self.reason}"


@attrs.define(eq=False, slots=False)
class FeedGapError(FeedError):
    """The bytes do not continue the log; feed those from `fed_offset` on."""

    fed_offset: int


class CorruptFeedError(FeedError):
    """No valid record begins where one should. The log ends there; the bytes may be fed again."""


@attrs.define(eq=False, slots=False)
class DivergedError(FeedError):
    """The master has other bytes than the replica at the same offset: one of them lost messages.

    The replica keeps its bytes, and takes no others until it is opened again.
    """

    kept: str
    """Path of a copy of the master's bytes from that offset on; empty if it was not written."""

    def __str__(self) -> str:
        copy = f"; the master's bytes are in {self.kept}" if self.kept else ""
        return (
            f"{super().__str__()}{copy}. Nothing was changed: compare both logs, then begin a new "
            "replica in an empty directory, or promote this one"
        )
