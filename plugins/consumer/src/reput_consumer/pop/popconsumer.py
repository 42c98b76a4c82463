"""`PopConsumer`: a consumer that is handed messages one by one, each until a deadline.

with store.pop_consumer("billing", "orders", invisible=30) as consumer:
    for message in consumer:
        handle(message)
        message.ack()
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from reput.errors import ReputError
from reput.record import unpack_body
from reput_consumer.errors import ConsumerClosedError
from reput_consumer.group.membersettings import Start, seconds_of
from reput_consumer.names import pop_retry_topic
from reput_consumer.pop.poprequest import PopRequest
from reput_consumer.selectors import Selector

if TYPE_CHECKING:
    from types import TracebackType

    from reput.record import MessageView
    from reput_consumer.pop.popservice import PopService
    from reput_consumer.pop.receipthandles import Handle, Popped

logger = logging.getLogger(__name__)

_COMPRESSED: Final = 1
_INVISIBLE_MAX_S: Final = 12 * 3_600


def invisible_ms_of(seconds: object) -> int:
    """Return a time for which a message is invisible, in ms.

    Raises:
        TypeError: it is not a number.
        ValueError: it is negative, or longer than 12 hours.
    """
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise TypeError(f"invisible: seconds expected, found {str(seconds)[:100]!r}")
    if not 0 <= seconds <= _INVISIBLE_MAX_S:
        raise ValueError(f"invisible {seconds}: 0 to {_INVISIBLE_MAX_S} seconds expected")
    return int(seconds * 1_000)


class PoppedMessage:
    """A message that the group was handed until a deadline, and what is to become of it.

    All fields of `reput.MessageView` are there, too: ``keys``, ``tags``, ``properties``, ….
    """

    __slots__ = ("_handle", "_popped", "_popper", "group", "invisible_until", "view")

    def __init__(self, popper: PopService, group: str, popped: Popped) -> None:
        self._popper = popper
        self._popped = popped
        self._handle: Handle | None = popped.handle
        self.group = group
        self.view: MessageView = popped.view
        """The record."""
        self.invisible_until = popped.invisible_until
        """When the message comes again if it is not acknowledged, ms."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, name)

    def __repr__(self) -> str:
        return f"<PoppedMessage {self.topic}/{self.view.queue_id} {self.view!r}>"

    @property
    def topic(self) -> str:
        """The topic that the message was put to, also when it comes from the retry topic."""
        return self._popped.topic

    @property
    def queue_offset(self) -> int:
        """Its place in the queue that it was read from."""
        return self._popped.queue_offset

    @property
    def attempt_count(self) -> int:
        """How often the group was handed the message, this time included."""
        return self._popped.attempt_count

    @property
    def body(self) -> bytes:
        """The body as the producer was given it, unpacked if it travels compressed."""
        view = self.view
        flag = view.sys_flag
        return unpack_body(view.body, flag) if flag & _COMPRESSED else view.body

    def ack(self) -> bool:
        """Count the message as consumed.

        Returns:
            False if it was too late, or the message was acknowledged before: the deadline has
            passed and others may have been handed the message.
        """
        return self._end(self._popper.ack)

    def renew(self, invisible: float) -> bool:
        """Keep the message for so many seconds from now; False if it was too late."""
        milliseconds = invisible_ms_of(invisible)
        if self._handle is not None:
            self._handle = self._popper.renew(self.group, self.topic, self._handle, milliseconds)
            self.invisible_until = self._popper.port.context.clock() + milliseconds
        return self._handle is not None

    def retry(self, delay: float = 0) -> bool:
        """Refuse the message: it comes again after so many seconds, with one failure more.

        Returns:
            False if it was too late.
        """
        is_in_time = self.renew(delay)
        self._handle = None
        return is_in_time

    def give_up(self) -> bool:
        """Put the message to the dead letters of the group; False if it was too late.

        Raises:
            ReputError: it cannot be read or stored; the message can still be acknowledged.
            OSError: likewise.
        """
        return self._end(self._popper.give_up)

    def _end(self, end: Callable[[str, str, Handle], bool]) -> bool:
        handle = self._handle
        is_in_time = handle is not None and end(self.group, self.topic, handle)
        self._handle = None  # it stays valid if that has raised
        return is_in_time


@attrs.define(eq=False)
class PopConsumer:
    """A member of a group that pops; a context manager that leaves the group at its end.

    All members of the group take from all queues, and a message that one of them was handed is
    invisible to the others until its deadline. Thread-safe.
    """

    popper: PopService = attrs.field(repr=False)
    group: str
    member: str
    selectors: Mapping[str, Selector]
    invisible_ms: int
    start: Start
    idle: float | None
    mixed: bool
    _is_closed: bool = attrs.field(init=False, default=False)
    _turn: int = attrs.field(init=False, default=0)
    _arrived: threading.Condition = attrs.field(init=False, factory=threading.Condition)
    _arrivals: int = attrs.field(init=False, default=0)
    _token: int | None = attrs.field(init=False, default=None)
    _listener: Callable[[], None] | None = attrs.field(init=False, default=None)

    def join(self) -> None:
        """Become a member of the group, and begin to read the topics.

        Raises:
            ReputError: the store is read-only, the group may not read, or its members pull.
            ValueError: names that are too long together, or a condition that is not valid.
        """
        retries = {pop_retry_topic(self.group, topic): Selector() for topic in self.selectors}
        read = {**self.selectors, **retries}
        self.popper.port.join(
            self.group, self.member, read, self._wake, pops=True, mixed=self.mixed
        )
        self._token = self.popper.waiting.begin(self.group, read, self._wake)
        try:
            for topic in self.selectors:
                self.popper.begin(self._request(topic, 0))
        except BaseException:
            self.close()
            raise

    def receive(self, max_count: int = 32, seconds: float | None = None) -> list[PoppedMessage]:
        """Return messages; all of them are invisible to others from now on.

        Args:
            max_count: most messages to return.
            seconds: how long to wait for some; None for ever.

        Returns:
            The messages; empty if none came in that time.

        Raises:
            ConsumerClosedError: the consumer is closed.
            ReputError: the store cannot be read.
            ValueError: fewer than one message.
        """
        if max_count < 1:
            raise ValueError(f"max_count {max_count}: 1 or more expected")
        seconds_of("seconds", seconds)
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            if self._is_closed or self.popper.is_closed:
                raise ConsumerClosedError(self.group)
            seen = self._arrivals
            found = self._pop(max_count)
            if found:
                return found
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return []
            with self._arrived:
                self._arrived.wait_for(lambda: self._arrivals != seen, left)  # noqa: B023

    def _pop(self, max_count: int) -> list[PoppedMessage]:
        """Take from the topics in turn; one that cannot be read keeps nobody from the others."""
        found: list[PoppedMessage] = []
        error: Exception | None = None
        topics = list(self.selectors)
        self._turn += 1
        at = self._turn % len(topics)
        try:
            for topic in topics[at:] + topics[:at]:
                if len(found) < max_count:
                    try:
                        popped = self.popper.pop(self._request(topic, max_count - len(found)))
                    except (ReputError, OSError) as of_topic:
                        error = of_topic
                    else:
                        found += [PoppedMessage(self.popper, self.group, each) for each in popped]
        except BaseException:
            for each in found:  # nobody gets them
                self.popper.give_back(self.group, each.topic, [each._popped.handle])
            raise
        if error is not None:
            if not found:
                raise error
            logger.warning("topic not read group=%s: %s", self.group, error)
        return found

    def _request(self, topic: str, max_count: int) -> PopRequest:
        return PopRequest(
            group=self.group,
            topic=topic,
            selector=self.selectors[topic],
            max_count=max_count,
            invisible_ms=self.invisible_ms,
            start=self.start,
        )

    def __iter__(self) -> Iterator[PoppedMessage]:
        """Return an iterator that waits for messages, one by one; see ``idle``."""
        while not self._is_closed:
            found = self.receive(1, self.idle)
            if not found:
                return
            yield found[0]

    def listen(self, listener: Callable[[], None] | None) -> None:
        """Have a function called when there may be messages to receive; None to end that.

        It is called from any thread, by callers that cannot wait.
        """
        self._listener = listener

    def _wake(self) -> None:
        with self._arrived:
            self._arrivals += 1
            self._arrived.notify_all()
            listener = self._listener
        if listener is not None:
            listener()

    def close(self) -> None:
        """Leave the group; messages that are out come again after their deadline."""
        if not self._is_closed:
            self._is_closed = True
            if self._token is not None:
                self.popper.waiting.end(self._token)
            self.popper.port.leave(self.group, self.member)
            self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
