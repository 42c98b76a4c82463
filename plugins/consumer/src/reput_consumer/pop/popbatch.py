"""`PopBatch`: one request's messages, taken queue by queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from reput.errors import ReputError
from reput_consumer.backend.sendback import ORIGIN_GROUP
from reput_consumer.names import is_retry_topic
from reput_consumer.pop.popread import message_at, new_messages
from reput_consumer.pop.receipthandles import Handle, Popped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reput.record import MessageView
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.backend.pendingfetches import QueueKey
    from reput_consumer.pop.leases import Lease, Leases
    from reput_consumer.pop.poprequest import PopRequest


@attrs.define(eq=False, repr=False)
class PopBatch:
    """What one request is handed; used under the lock of its group.

    A queue that cannot be read keeps nobody from the others.
    """

    port: EmbeddedBackend
    request: PopRequest
    most: int
    """How often a message is handed out at most."""
    nonce: Callable[[], int]
    handle: Callable[[QueueKey, str, Lease], Handle]
    found: list[Popped] = attrs.field(init=False, factory=list)
    dead: list[tuple[QueueKey, Leases, Lease, MessageView]] = attrs.field(init=False, factory=list)
    """Messages that were handed out too often, for the dead letters."""
    error: ReputError | OSError | None = attrs.field(init=False, default=None)
    """Why the first of the queues that could not be read could not."""
    size: int = attrs.field(init=False, default=0)
    """Bytes of the records that were found."""
    now: int = attrs.field(init=False)
    until: int = attrs.field(init=False)
    _of_request: int | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._of_request = self.request.nonce
        self.now = self.port.clock()
        self.until = self.now + self.request.invisible_ms

    @property
    def wanted(self) -> int:
        """How many messages more the request takes."""
        if self.size >= self.request.max_bytes:
            return 0
        return self.request.max_count - len(self.found)

    def take(self, queues: Iterable[tuple[QueueKey, Leases]]) -> None:
        """Take from all queues, in any order."""
        for key, leases in queues:
            if self.wanted > 0:
                self._take_from(key, leases)

    def take_ordered(self, queues: list[tuple[QueueKey, Leases]]) -> None:
        """Take from one queue of which nothing is out; the same attempt gets the same batch.

        Raises:
            ReputError: the batch cannot be read again.
        """
        attempt = self.request.attempt
        for key, leases in queues if attempt else ():
            out = leases.out()
            if out and all(lease.attempt == attempt for lease in out):
                self._repeat(key, leases, out)
                return
        for key, leases in queues:
            if not leases.is_any_out:
                self._take_from(key, leases)
                if self.found:
                    return

    def _nonce(self) -> int:
        """Return the nonce of all that this request is handed."""
        if self._of_request is None:
            self._of_request = self.nonce()
        return self._of_request

    def _repeat(self, key: QueueKey, leases: Leases, out: list[Lease]) -> None:
        are_one = len({lease.nonce for lease in out}) == 1  # none was renewed by itself
        are_one = are_one and self.request.nonce is None
        views = [
            None if lease.is_moving else message_at(self.port, key, lease.queue_offset)
            for lease in out
        ]
        for lease, view in zip(out, views, strict=True):
            if view is not None:
                leases.renew(lease, lease.nonce if are_one else self._nonce(), self.until)
                self._add(key, lease, view)

    def _take_from(self, key: QueueKey, leases: Leases) -> None:
        """Take from a queue as far as it can be read."""
        try:
            self._take_again(key, leases)
            self._take_new(key, leases)
        except (ReputError, OSError) as error:
            self.error = self.error or error

    def _take_again(self, key: QueueKey, leases: Leases) -> None:
        for lease in leases.again:
            if self.wanted <= 0:
                return
            view = message_at(self.port, key, lease.queue_offset)
            if view is None:
                leases.finish(lease)  # the log has lost it
            else:
                self._hand_out(key, leases, lease.queue_offset, view)

    def _take_new(self, key: QueueKey, leases: Leases) -> None:
        request = self.request
        is_retry = is_retry_topic(key[0])
        chosen = None if is_retry else self.port.filter_of(request.topic, request.selector)
        for queue_offset, view in new_messages(self.port, key, leases, lambda: self.wanted, chosen):
            if not (is_retry and self._is_of_others(view)):
                self._hand_out(key, leases, queue_offset, view)

    def _is_of_others(self, view: MessageView) -> bool:
        """Whether another group and topic have a retry topic of the same name."""
        return view.properties.get(ORIGIN_GROUP, self.request.group) != self.request.group

    def _hand_out(
        self, key: QueueKey, leases: Leases, queue_offset: int, view: MessageView
    ) -> None:
        request = self.request
        lease = leases.hand_out(queue_offset, self._nonce(), self.now, self.until, request.attempt)
        if view.reconsume_times + lease.failures >= self.most:
            lease.is_moving = True
            self.dead.append((key, leases, lease, view))
        else:
            self._add(key, lease, view)

    def _add(self, key: QueueKey, lease: Lease, view: MessageView) -> None:
        topic = self.request.topic
        lease.keep, self.size = self.request.keep, self.size + len(view.record)
        self.found.append(
            Popped(
                topic,
                view,
                lease.queue_offset,
                self.handle(key, topic, lease),
                self.port.steady.at_source(self.until),
                view.reconsume_times + lease.failures + 1,
            )
        )
