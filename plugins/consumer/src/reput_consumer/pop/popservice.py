"""`PopService`: hands messages of a store out to groups, one by one, each until a deadline.

Differs from RocketMQ's ``PopMessageProcessor`` in how it remembers: no checkpoints in the log, and
no acknowledgements as messages. The floor of each queue is the group's committed offset, and what
is above it is in memory; see `Leases`. After a restart all from the floor on comes again.

A message that expires, or is refused, is put into the group's retry topic with one failure more,
and only then counts as acknowledged; see `ReviveService`. So failures are counted in the message
and survive a restart. In an ordered group, and in a light queue, it stays where it is and holds up
its queue.

Any read may fail. So what a request needs is read first, and the leases change after it. The
deadline of whatever is out is noted, also if the request fails.

Source: RocketMQ ``PopMessageProcessor``, ``ConsumerOrderInfoManager``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import ReputError
from reput_consumer.errors import GroupKindError
from reput_consumer.messagequeue import MessageQueue
from reput_consumer.names import LIGHT_PREFIX, pop_retry_topic
from reput_consumer.pop.leases import Lease, Leases
from reput_consumer.pop.longpolling import PopLongPolling, light_queues_of
from reput_consumer.pop.popbatch import PopBatch
from reput_consumer.pop.popgroup import PopGroup
from reput_consumer.pop.popread import message_at, room_of
from reput_consumer.pop.receipthandles import SERIALS, Handle, Popped, UnackedMessage
from reput_consumer.pop.reviveservice import MovingMessage, ReviveService

if TYPE_CHECKING:
    from reput.record import DispatchBatch
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.backend.pendingfetches import QueueKey
    from reput_consumer.metadata.requestmodes import RequestModes
    from reput_consumer.pop.poprequest import PopRequest

logger = logging.getLogger(__name__)

_KEPT_MS: Final = 3 * 3_600_000
"""How long a message is kept for a consumer that is there and does not renew it by itself."""
_KEPT_STEP_MS: Final = 60_000


@attrs.define(eq=False)
class PopService:
    """Pop for all groups of one store. Thread-safe."""

    port: EmbeddedBackend
    modes: RequestModes
    """Which groups are to pop which topics."""
    wake: Callable[[], None]
    """Has `work` called soon; must not wait."""
    changed: Callable[[], None] = lambda: None
    """Called when other messages are out than before; must not wait."""
    waiting: PopLongPolling = attrs.field(init=False, factory=PopLongPolling)
    is_closed: bool = attrs.field(init=False, default=False)
    _revive: ReviveService = attrs.field(init=False)
    _epoch: int = attrs.field(init=False)
    _groups: dict[str, PopGroup] = attrs.field(init=False, factory=dict)
    _last_nonce: int = attrs.field(init=False, default=0)
    _due: int | None = attrs.field(init=False, default=None)
    """When `work` has something to do, ms; it may be early."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    """Of `_groups`, `_due` and `_last_nonce`; taken last."""

    def __attrs_post_init__(self) -> None:
        self._epoch = self.port.clock()
        self._last_nonce = self._epoch * SERIALS  # later than the epoch, if the clock is set back
        self._revive = ReviveService(self.port, self.new_nonce, self._note_due, self._finish)

    # ------------------------------------------------------------------ handing out

    def pop(self, request: PopRequest) -> list[Popped]:
        """Hand messages out; none if nothing is there now, or an ordered group's queues are busy.

        Raises:
            GroupKindError: the group has members that pull.
            GroupDisabledError: it may not read.
            ReputError: the store is read-only, or a queue cannot be read and others have nothing.
            ValueError: group and topic are too long for a retry topic, or a condition is not valid.
            OSError: an offset cannot be written.
        """
        port = self.port
        retry = pop_retry_topic(request.group, request.topic)
        settings = port.check_group(request.group, soon=True)
        if port.registry.pops(request.group) is False:
            raise GroupKindError(request.group, "pull", "pop")
        port.sender.ensure_pop_retry(settings, retry)
        if not (port.groups.is_saved and port.topics.is_saved):
            port.committed_something()
        most = request.max_attempts
        if most is None:
            most = settings.retry_max_times + 1
        picked = PopBatch(port, request, most, self.new_nonce, self._handle)
        with self._held(request.group) as group:
            is_ordered = request.is_ordered
            group.is_ordered = (
                settings.consume_message_orderly if is_ordered is None else is_ordered
            )
            group.turn += 1
            queues = group.queues_for(self.port, request, retry)
            try:
                if group.is_ordered:
                    picked.take_ordered(queues)
                else:
                    picked.take(queues)
                self._commit(group, queues)
            except BaseException:
                self._take_back(group, picked)
                raise
            if picked.found or picked.dead:
                self._note_due(picked.until)
        self._revive.give_up(MovingMessage(group, *dead) for dead in picked.dead)
        if picked.found:
            self.changed()
        if picked.error is not None:
            if not picked.found:
                raise picked.error
            logger.warning("queue not read group=%s: %s", request.group, picked.error)
        return picked.found

    def _take_back(self, group: PopGroup, picked: PopBatch) -> None:
        """Have everything come again that nobody is going to get; under the group's lock."""
        for _, leases, lease, _ in picked.dead:
            leases.put_back(lease, has_failed=False)
        for each in picked.found:
            found = self._find(group, each.topic, each.handle)
            if found is not None:
                found[1].put_back(found[2], has_failed=False)
        self._note_due(picked.until)  # of a message that was handed out, and not noted yet

    def has_messages(self, request: PopRequest) -> bool:
        """Whether a request would find messages now, if it selected all: nothing is handed out.

        Raises:
            ReputError: the store cannot be read.
            ValueError: group and topic are too long for a retry topic.
        """
        retry = pop_retry_topic(request.group, request.topic)
        with self._held(request.group) as group:
            is_ordered = group.is_ordered if request.is_ordered is None else request.is_ordered
            for topic in filter(None, (request.topic, retry)):
                for queue in self.port.queues(topic):
                    is_asked = request.queue_id in (None, queue.queue_id) or topic == retry
                    if is_asked and self._has_messages(group, queue, is_ordered=is_ordered):
                        return True
        return False

    def _has_messages(self, group: PopGroup, queue: MessageQueue, *, is_ordered: bool) -> bool:
        leases = group.queues.get((queue.topic, queue.queue_id))
        first, following = self.port.bounds(queue)
        if leases is None:
            begin = self.port.committed(group.name, queue)
            return following > (first if begin is None else begin)
        if is_ordered and leases.is_any_out:
            return False
        return bool(leases.again) or (room_of(leases) > 0 and following > leases.next)

    def begin(self, request: PopRequest) -> None:
        """Decide where a group begins to read a topic, if it has not begun: nothing is handed out.

        Raises:
            ReputError: as for `pop`.
            OSError: likewise.
        """
        retry = pop_retry_topic(request.group, request.topic)
        self.port.sender.ensure_pop_retry(self.port.check_group(request.group), retry)
        with self._held(request.group) as group:
            group.queues_for(self.port, request, retry)

    def _handle(self, key: QueueKey, topic: str, lease: Lease) -> Handle:
        return Handle(key[0] != topic, key[1], lease.queue_offset, lease.nonce, self._epoch)

    def handle_of(
        self, queue_id: int, queue_offset: int, pop_time: int, serial: int, *, is_retry: bool
    ) -> Handle | None:
        """Return the handle that a client names by what `Handle` says of it; None if it is void.

        Times of this opening are not those of an earlier one, unless the clock went back; so no
        epoch is needed.
        """
        numbers = queue_id, queue_offset, serial
        if pop_time < self._epoch or not all(number >= 0 for number in numbers):
            return None
        nonce = pop_time * SERIALS + serial
        return (
            Handle(is_retry, queue_id, queue_offset, nonce, self._epoch)
            if serial < SERIALS
            else None
        )

    def new_nonce(self) -> int:
        """Return a number that no message was handed out with before, by the clock."""
        with self._lock:
            self._last_nonce = max(self._last_nonce + 1, self.port.clock() * SERIALS)
            return self._last_nonce

    # ------------------------------------------------------------------ what consumers say

    def ack(self, group: str, topic: str, handle: Handle) -> bool:
        """Count a message as consumed; False if the handle is void."""
        if group not in self._groups:
            return False
        with self._held(group) as held:
            is_done = self._ack(held, topic, handle)
        if is_done:
            self.changed()
        return is_done

    def ack_at_once(
        self, group: str, topic: str, handles: Sequence[Handle | None]
    ) -> list[bool] | None:
        """Count messages as consumed, unless another thread works on the group.

        Nothing here waits for a disk, unless the topic was deleted and is back.

        Args:
            group: the group.
            topic: the topic of the request.
            handles: of the messages; None for what is not a handle.

        Returns:
            Whether each handle was valid; None, with nothing done, if it would have to wait.
        """
        held = self._groups.get(group)
        if held is None:
            return [False] * len(handles)
        if not held.lock.acquire(blocking=False):
            return None
        done: list[bool] = []
        try:
            if held.is_forgotten:
                return None
            done.extend(each is not None and self._ack(held, topic, each) for each in handles)
        finally:
            held.lock.release()
            if any(done):
                self.changed()
        return done

    def _ack(self, held: PopGroup, topic: str, handle: Handle) -> bool:
        found = self._find(held, topic, handle)
        if found is not None:
            self._finish(held, *found)
        return found is not None

    def renew(
        self, group: str, topic: str, handle: Handle, invisible_ms: int, *, keep: bool = False
    ) -> Handle | None:
        """Move a message's deadline; return its new handle, None if the handle is void.

        A consumer that refuses a message moves its deadline to when it is to come again. With
        ``keep`` the handle stays the same.
        """
        until = self.port.clock() + invisible_ms
        if group not in self._groups:
            return None
        with self._held(group) as held:
            found = self._find(held, topic, handle)
            if found is None:
                return None
            key, leases, lease = found
            leases.renew(lease, lease.nonce if keep else self.new_nonce(), until)
            lease.keep = None  # the consumer decides from now on
            renewed = self._handle(key, topic, lease)
        self._note_due(until)
        return renewed

    def give_back(self, group: str, topic: str, handles: Iterable[Handle]) -> None:
        """Have messages come again at once, as if they had not been handed out."""
        if group not in self._groups:
            return
        with self._held(group) as held:
            for handle in handles:
                found = self._find(held, topic, handle)
                if found is not None:
                    found[1].put_back(found[2], has_failed=False)
        self.waiting.wake([topic], group)
        self.changed()

    def give_up(self, group: str, topic: str, handle: Handle) -> bool:
        """Put a message to the dead letters; False if the handle is void.

        Raises:
            ReputError: it cannot be read or stored; the message is still out.
            OSError: likewise.
        """
        if group not in self._groups:
            return False
        with self._held(group) as held:
            found = self._find(held, topic, handle)
            if found is None:
                return False
            key, leases, lease = found
            view = message_at(self.port, key, lease.queue_offset)
            lease.is_moving = True
        self._revive.give_up_now(MovingMessage(held, key, leases, lease, view))
        return True

    def _find(
        self, group: PopGroup, topic: str, handle: Handle
    ) -> tuple[QueueKey, Leases, Lease] | None:
        if handle.epoch != self._epoch:
            return None
        queue_topic = pop_retry_topic(group.name, topic) if handle.is_retry else topic
        key = queue_topic, handle.queue_id
        leases = group.queues.get(key)
        lease = None if leases is None else leases.find(handle.queue_offset, handle.nonce)
        return None if leases is None or lease is None else (key, leases, lease)

    def _finish(self, group: PopGroup, key: QueueKey, leases: Leases, lease: Lease) -> None:
        was_full = room_of(leases) == 0
        leases.finish(lease)
        try:
            self._commit(group, [(key, leases)])
        except (ReputError, OSError) as error:  # it is acknowledged; the next commit says so
            text = "offset not committed yet group=%s queue=%s/%d: %s"
            logger.warning(text, group.name, *key, error)
        if was_full or (_keeps_order(group, key) and not leases.is_any_out):
            self.waiting.wake([key[0]], group.name)

    def _commit(self, group: PopGroup, queues: Iterable[tuple[QueueKey, Leases]]) -> None:
        port = self.port
        moved = {}
        for (topic, queue_id), leases in queues:
            if group.queues.get((topic, queue_id)) is not leases:
                continue  # the group was moved meanwhile, or the topic deleted
            queue, floor = MessageQueue(topic, port.broker, queue_id), leases.floor
            committed = port.committed(group.name, queue)
            # Further than the floor, members that pulled meanwhile have come.
            if committed is None or committed < floor:
                moved[queue] = floor
        if moved and not group.is_forgotten:
            port.commit(group.name, moved)

    # ------------------------------------------------------------------ timed work

    def work(self, now: int) -> int | None:
        """Have messages come again whose deadline has passed; return when to be called next, ms."""
        with self._lock:
            if self._due is None or self._due > now:
                return self._due
            self._due = None
            groups = list(self._groups.values())
        try:
            for group in groups:
                self._expire(group, now)
        except BaseException:
            self._note_due(now)  # of groups that were not looked at
            raise
        with self._lock:
            return self._due

    def _expire(self, group: PopGroup, now: int) -> None:
        moving, woken = [], []
        with group.lock:
            for key, leases in group.queues.items():
                for lease in leases.expired(now):
                    if _is_kept(lease, now):
                        leases.renew(lease, lease.nonce, now + _KEPT_STEP_MS)
                    elif _keeps_order(group, key):
                        leases.put_back(lease, has_failed=True)
                        woken.append(key[0])
                    else:
                        lease.is_moving = True
                        moving.append(MovingMessage(group, key, leases, lease))
                if (due := leases.due) is not None:
                    self._note_due(due)
        if woken:
            self.waiting.wake(woken, group.name)
        self._revive.send_back(moving)
        if woken or moving:
            self.changed()

    def _note_due(self, at: int) -> None:
        with self._lock:
            is_earlier = self._due is None or at < self._due
            if is_earlier:
                self._due = at
        if is_earlier:
            self.wake()

    # ------------------------------------------------------------------ groups

    def _held(self, name: str) -> _Held:
        return _Held(self, name)

    def arrive(self, batch: DispatchBatch) -> None:
        """Wake requests that wait for a topic of ``batch``; on the thread of the dispatch."""
        if not len(self.waiting):
            return
        self.waiting.wake(batch.topics)
        if self.waiting.light_count:
            self.waiting.wake(light_queues_of(batch))

    def out(self, group: str | None = None) -> list[UnackedMessage]:
        """Return what is out, by group, topic and queue id."""
        with self._lock:
            groups = [each for name, each in self._groups.items() if group in (None, name)]
        found = []
        for each in groups:
            with each.lock:
                for (topic, queue_id), leases in each.queues.items():
                    if leases.is_any_out:
                        out = leases.out()
                        since = self.port.steady.at_source(min(lease.since for lease in out))
                        found.append(UnackedMessage(each.name, topic, queue_id, len(out), since))
        return sorted(found, key=lambda out: (out.group, out.topic, out.queue_id))

    def move(
        self, name: str, offsets: Mapping[MessageQueue, int], commit: Callable[[], None]
    ) -> None:
        """Have a group go on at other offsets; handles of these queues are void.

        Args:
            name: the group.
            offsets: where to, by queue.
            commit: commits them. No acknowledgement comes between that and the end of the handles:
                it would commit how far the group was.
        """
        with self._held(name) as group:
            commit()
            for queue, offset in offsets.items():
                key = queue.topic, queue.queue_id
                if key in group.queues:
                    group.queues[key] = Leases(offset)
        self.waiting.wake({queue.topic for queue in offsets}, name)

    def forget(self, name: str) -> None:
        """Drop what is known of a group: it was deleted."""
        with self._held(name) as group, self._lock:
            group.is_forgotten = True
            self._groups.pop(name, None)

    def forget_topics(self, is_gone: Callable[[str], bool]) -> None:
        """Drop what is known of the queues of topics that were deleted."""
        with self._lock:
            groups = list(self._groups.values())
        for group in groups:
            with group.lock:
                for key in [key for key in group.queues if is_gone(key[0])]:
                    del group.queues[key]
                for topic in [each for each in group.topic_of if is_gone(each)]:
                    del group.topic_of[topic]

    def close(self) -> None:
        """Wake all requests that wait. Messages that are out come again after the next opening."""
        self.is_closed = True
        self.waiting.wake_all()


@attrs.define(eq=False, repr=False)
class _Held:
    """Holds the lock of a group, which is added if it is not known."""

    popper: PopService
    name: str
    group: PopGroup | None = None

    def __enter__(self) -> PopGroup:
        popper = self.popper
        while True:
            with popper._lock:
                group = popper._groups.get(self.name)
                if group is None:
                    group = popper._groups[self.name] = PopGroup(self.name)
            group.lock.acquire()
            if not group.is_forgotten:
                self.group = group
                return group
            group.lock.release()

    def __exit__(self, *_: object) -> None:
        assert self.group is not None
        self.group.lock.release()


def _keeps_order(group: PopGroup, key: QueueKey) -> bool:
    """Whether a failed message comes again in its place, and its queue waits for it."""
    return group.is_ordered or key[0].startswith(LIGHT_PREFIX)


def _is_kept(lease: Lease, now: int) -> bool:
    """Return whether the consumer still has a message and does not renew it by itself."""
    if lease.keep is None or now - lease.since >= _KEPT_MS:
        return False
    try:
        return lease.keep()
    except Exception:  # of the server; the message comes again
        logger.exception("message not kept")
        return False
