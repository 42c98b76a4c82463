"""States of a follower. Each has a name, a number for metrics, and what to do next."""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

from reput_server.follow.errors import FollowError


class State(Enum):
    """What a follower is doing, or why it has ended; the value is the name that is shown."""

    CONNECTING = "connecting"
    """It requests the broker's configuration, and connects."""
    FOLLOWING = "following"
    """It is connected, the last bytes of the store are the master's, and it appends what comes."""
    MASTER_GONE = "master gone"
    """The master cannot be reached; it is tried again."""
    STOPPED = "stopped"
    """It was stopped."""
    FELL_BEHIND = "fell behind"
    """The master has removed messages that the store does not have yet."""
    MASTER_LOST = "master lost messages"
    """The master's log ends before that of the store."""
    DIVERGED = "diverged"
    """Master and store have different bytes at the same offset."""
    CORRUPT = "corrupt"
    """The master's bytes hold no valid record where one should begin."""
    FILE_SIZE_CHANGED = "file size changed"
    """The master's files have another size than those of the store."""
    REFUSED = "refused"
    """The broker cannot be followed, or not with these options."""
    STORE_FAILED = "store failed"
    """The store cannot take more: its disk is full or fails, or it was closed."""

    @property
    def is_final(self) -> bool:
        """Whether a follower in this state has ended."""
        return self in FINAL

    @property
    def number(self) -> int:
        """The state in metrics: 0 while following; the others in the order of this list, from 1."""
        order = [each for each in State if each is not State.FOLLOWING]
        return 0 if self is State.FOLLOWING else order.index(self) + 1


FINAL: Final = frozenset(
    {
        State.STOPPED,
        State.FELL_BEHIND,
        State.MASTER_LOST,
        State.DIVERGED,
        State.CORRUPT,
        State.FILE_SIZE_CHANGED,
        State.REFUSED,
        State.STORE_FAILED,
    }
)


@attrs.define(eq=False, slots=False)
class FollowEndedError(FollowError):
    """A follower cannot go on; the state says why."""

    state: State
    reason: str
    advice: str

    def __str__(self) -> str:
        return f"{self.state.value}: {self.reason}; {self.advice}"
