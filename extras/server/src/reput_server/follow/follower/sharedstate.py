"""`SharedState`: what the threads of a follower share, under one condition."""

from __future__ import annotations

import logging
import math
import threading
from typing import TYPE_CHECKING

import attrs

from reput_server.follow.follower.lag import LagMeter
from reput_server.follow.follower.states import FollowEndedError, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_server.follow.brokerclient.brokerfacts import BrokerFacts
    from reput_server.follow.follower.source import Connection, Master

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class SharedState:
    """One follower's state. Fields are read and written under `changed`."""

    source: str
    """The source's text, for the log."""
    clock: Callable[[], float]
    """Seconds, monotonic."""
    changed: threading.Condition = attrs.field(factory=threading.Condition)
    meter: LagMeter = attrs.field(factory=LagMeter)
    state: State = State.CONNECTING
    text: str = ""
    """What is wrong, and what to do next; empty while nothing is."""
    trouble: str = ""
    """What is wrong apart from the connection that brings the log."""
    ended: FollowEndedError | None = None
    """Why the follower ended by itself."""
    is_stopping: bool = False
    facts: BrokerFacts | None = None
    master: Master | None = None
    """The one that was reached last; another one as soon as it has moved."""
    connection: Connection | None = None
    wanted: int = 0
    """Physical offset of the next byte that the connection is to bring."""
    received_size: int = 0
    connection_count: int = 0
    metadata_count: int = 0

    @property
    def shown_text(self) -> str:
        """The text that users see with the state."""
        return self.text or self.trouble

    def is_over(self) -> bool:
        """Whether the follower's threads are to end."""
        return self.is_stopping or self.ended is not None

    def become(self, state: State, text: str) -> None:
        """Change the state, unless the follower has ended by itself; called under the condition."""
        if self.ended is None:
            self._show(state, text)

    def _show(self, state: State, text: str) -> None:
        if (state, text) != (self.state, self.text):
            logger.info("follower state=%s source=%s %s", state.value, self.source, text)
        self.state, self.text = state, text
        self.changed.notify_all()

    def end(self, error: FollowEndedError) -> None:
        """End the follower, unless it has ended or is stopping; `error` says why."""
        with self.changed:
            if self.ended is None and not self.is_stopping:
                self.ended = error
                self._show(error.state, f"{error.reason}; {error.advice}")
            connection = self.connection
        if connection is not None:
            connection.abort()

    def note_trouble(self, text: str) -> None:
        """Show what is wrong apart from the connection; an empty text removes it."""
        with self.changed:
            if text != self.trouble:
                logger.info("follower trouble=%s source=%s", text or "none", self.source)
                self.trouble = text
                self.changed.notify_all()

    def wait_for(self, holds: Callable[[], bool], deadline: float | None) -> bool:
        """Wait under the condition until something holds; False if the time is over.

        Raises:
            FollowEndedError: the follower has ended.
        """
        while not holds():
            if self.ended is not None:
                raise self.ended
            if self.state is State.STOPPED or self.is_stopping:
                raise FollowEndedError(State.STOPPED, "it was asked to end", "start another one")
            left = None if deadline is None else deadline - self.clock()
            if left is not None and left <= 0:
                return False
            self.changed.wait(left)
        return True

    def deadline_after(self, timeout: float | None) -> float | None:
        """Return the time of `clock` when so many seconds have passed; None for None.

        Raises:
            ValueError: it is NaN.
        """
        if timeout is not None and math.isnan(timeout):
            raise ValueError(f"timeout: a number of seconds expected, found {timeout!r}")
        return None if timeout is None else self.clock() + timeout

    def pause(self, seconds: float) -> None:
        """Wait on a thread of the follower; ends early when the follower does."""
        deadline = self.clock() + seconds
        with self.changed:
            while not self.is_over() and (left := deadline - self.clock()) > 0:
                self.changed.wait(left)
