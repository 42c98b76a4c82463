"""`ConsumerBackend`: the requests of consumers to a store or a broker.

It follows the requests of RocketMQ's protocol, one method for each, so that a network can
be behind it as well: fetch (11), committed and commit (14, 15), bounds (30, 31), offset_by_time
(29), send_back (36), members (34, 35, 38, 40), lock and unlock (41, 42).

Further duties of a port before a network:

* Answers to fetches and calls of ``changed`` come on threads of the port's own, never on one that
  still holds a lock of the port: members use the port from inside of both.
* Every fetch is answered. Where the broker is gone, or says that it cannot now, the port answers
  after a pause with `FetchStatus.NO_NEW_MESSAGE` and the offset of the request: the member tries
  again then, and not before.
* All other methods may wait for the network, and raise a `ReputError` when it does not answer; the
  member logs that and tries again after seconds. `drop`, `leave` and `unlock` do not raise.
* Queues that are lost are left alone by members; what still comes for them is ignored.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

import attrs

from reput_consumer.messagequeue import MessageQueue
from reput_consumer.selectors import Selector

if TYPE_CHECKING:
    from reput.record import MessageView

DEAD_LETTER: Final = -1
"""The delay level of a message that is given up at once."""


class FetchStatus(enum.Enum):
    """What a fetch has found."""

    FOUND = 0
    """Messages."""
    NO_NEW_MESSAGE = 19
    """The end of the queue; try again."""
    NO_MATCHED_MESSAGE = 20
    """Messages that the selector does not select; go on at the next offset."""
    OFFSET_ILLEGAL = 21
    """The queue does not have that offset; go on at the next offset."""


@attrs.frozen
class FetchRequest:
    """A request for messages of one queue."""

    group: str
    member: str
    """Client id of the member."""
    queue: MessageQueue
    queue_offset: int
    selector: Selector
    max_count: int = 32
    max_bytes: int = 256 << 10
    may_wait: bool = True
    """Whether the answer may come later if there is no new message."""


@attrs.frozen
class Fetched:
    """The answer to a fetch."""

    status: FetchStatus
    next_offset: int
    """Where the next fetch begins."""
    messages: Sequence[MessageView] = ()
    queue_offsets: Sequence[int] = ()
    """Of each message."""
    is_exact: bool = False
    """Whether tags were compared as texts; otherwise by their hash, and the member compares."""


class ConsumerBackend(Protocol):
    """A store, or brokers behind a network. Thread-safe."""

    answers_later: ClassVar[bool]
    """Whether `fetch` returns before there is an answer, so that a member requests the next
    messages before it handles those at hand."""

    def clock(self) -> int:
        """Return now, ms."""
        ...

    # ------------------------------------------------------------------ messages

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues of a topic that may be read, sorted, each once; none without a topic.

        Members of a group share the queues out by the answer that each of them gets, so all of them
        must get the same answer, at the latest after ``changed`` was called.

        Raises:
            ReputError: it is not known now; the member keeps the queues of the topic it has.
        """
        ...

    def fetch(self, request: FetchRequest, answer: Callable[[Fetched], None]) -> None:
        """Request messages; ``answer`` is called once, at once or later, from any thread.

        An embedded store answers before this returns, and later only if there is no new message and
        the request may wait: the answer then says that it is time to try again. A port before a
        network always answers later; this returns once the request is on its way. ``answer`` must
        be called without a lock of the port, and returns quickly. A request that `leave` or `drop`
        gives up may never be answered.

        Raises:
            ReputError: the queue cannot be read; ``answer`` is not called.
        """
        ...

    def drop(self, member: str, queue: MessageQueue) -> None:
        """Give up the fetches of a queue that a member waits for."""
        ...

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """Return the first queue offset of a queue, and the one of its next message.

        Raises:
            ReputError: it is not known now.
        """
        ...

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        """Return the queue offset of the first message stored at that time (ms) or later.

        Raises:
            ReputError: it is not known now.
        """
        ...

    def send_back(
        self, group: str, message: MessageView, level: int, max_reconsume_times: int | None
    ) -> str:
        """Have a message come again later, or store it as a dead letter.

        Args:
            group: the group that could not consume it.
            message: the message.
            level: delay level; 0 for 3 + how often it came back, `DEAD_LETTER` to give it up.
            max_reconsume_times: how often it may come back; None for the group's setting.

        Returns:
            What becomes of the message, for a log: ``"retry at delay level 3"``.

        Raises:
            ReputError: nothing was stored.
        """
        ...

    # ------------------------------------------------------------------ offsets

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """Return the queue offset that a group goes on at; None if it has none.

        Raises:
            ReputError: it is not known now.
        """
        ...

    def commit(
        self, group: str, offsets: Mapping[MessageQueue, int], *, durable: bool = False
    ) -> None:
        """Note how far a group is.

        Args:
            group: the group.
            offsets: the next queue offset by queue.
            durable: return when the offsets survive a power cut.

        Raises:
            ReputError: they cannot be noted.
            OSError: they cannot be written.
        """
        ...

    # ------------------------------------------------------------------ members

    def join(
        self,
        group: str,
        member: str,
        selectors: Mapping[str, Selector],
        changed: Callable[[], None],
        *,
        broadcast: bool = False,
        mixed: bool = False,
    ) -> None:
        """Add a member to a group.

        Args:
            group: the group.
            member: client id of the member.
            selectors: what it wants, by topic.
            changed: called, from any thread, whenever members of the group, or queues of the
                topics, have come or gone; it may use the port.
            broadcast: whether each member reads everything.
            mixed: whether other members may select something else.

        Raises:
            ReputError: the group may not read, has a member of that name or one that selects
                something else, as far as members are known here, or selectors of that kind
                are not understood.
            ValueError: a selector is not a valid condition; the text says where.
        """
        ...

    def leave(self, group: str, member: str) -> None:
        """Remove a member, with its locks and the fetches that it waits for."""
        ...

    def members(self, group: str) -> Sequence[str]:
        """Return the client ids of a group's members, sorted, each once.

        Raises:
            ReputError: it is not known now; the member keeps the queues it has.
        """
        ...

    def lock(self, group: str, member: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues for one member of a group, or keep them locked; return those it has.

        Members lock again every 20 s while a message is being consumed; a lock lasts 60 s.

        Raises:
            ReputError: it is not known now; the member waits before it hands out more.
        """
        ...

    def unlock(self, group: str, member: str, queues: Iterable[MessageQueue]) -> None:
        """Release locks that the member has."""
        ...
