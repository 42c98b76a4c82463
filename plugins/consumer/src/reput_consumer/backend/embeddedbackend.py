"""`EmbeddedBackend`: the store of this process as a `ConsumerBackend`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from reput import ReadResult, ReadStatus
from reput.errors import ReadOnlyStoreError, ServiceNotAvailableError
from reput.record import queue_keys, queue_of_key
from reput_consumer.backend.consumerbackend import Fetched, FetchRequest, FetchStatus
from reput_consumer.backend.deletedfilter import DeletedFilter
from reput_consumer.backend.memberregistry import MemberRegistry, Membership
from reput_consumer.backend.pendingfetches import PendingFetches, QueueKey
from reput_consumer.backend.queuegrowth import QueueGrowth
from reput_consumer.backend.queuelocks import QueueLocks
from reput_consumer.backend.readpermission import ReadPermissions
from reput_consumer.backend.sendback import SendBack
from reput_consumer.backend.topicqueues import TopicQueues
from reput_consumer.errors import GroupDisabledError
from reput_consumer.messagequeue import MessageQueue
from reput_consumer.metadata.subscriptiongroups import GroupSettings
from reput_consumer.names import LIGHT_PREFIX, RETRY_PREFIX, dead_letter_topic
from reput_consumer.selectors import TAG, Selector, TagFilter, are_mixed, subscriptions_of

if TYPE_CHECKING:
    from reput.plugin import MessageFilter, StoreContext
    from reput.record import DispatchBatch, MessageView
    from reput_consumer.metadata.consumeroffsets import ConsumerOffsets
    from reput_consumer.metadata.deletedtopics import DeletedTopics
    from reput_consumer.metadata.subscriptiongroups import SubscriptionGroups
    from reput_consumer.metadata.topicsettings import Topics
    from reput_consumer.steadyclock import SteadyClock

logger = logging.getLogger(__name__)

_READ_ONLY: Final = (
    'it was opened with mode="r", and a group is changed where the store is written: use mode="w", '
    "or if another process writes the store, read as a client of `reput serve` (reput-client)"
)
_FLUSH_SECONDS: Final = 60.0
_PAST_ALL: Final = (1 << 62) - 1  # a queue offset that no queue has; its read has the bounds
_FILTERS_KEPT: Final = 1_000
_FEW: Final = 32  # messages of a batch for which it is not worth to call numpy

_AT_END: Final = frozenset({ReadStatus.OFFSET_OVERFLOW_ONE, ReadStatus.OFFSET_FOUND_NULL})
_EMPTY: Final = frozenset({ReadStatus.NO_MATCHED_LOGIC_QUEUE, ReadStatus.NO_MESSAGE_IN_QUEUE})
_NOT_MATCHED: Final = frozenset({ReadStatus.NO_MATCHED_MESSAGE, ReadStatus.MESSAGE_WAS_REMOVING})


@attrs.define(eq=False, repr=False)
class EmbeddedBackend:
    """See `reput_consumer.backend.consumerbackend.ConsumerBackend`. Thread-safe."""

    answers_later: ClassVar[bool] = False
    context: StoreContext
    broker: str
    """Name of the broker that the store's queues belong to."""
    offsets: ConsumerOffsets
    groups: SubscriptionGroups
    topics: Topics
    deleted: DeletedTopics
    committed_something: Callable[[], None]
    """Called when there are offsets to save."""
    topics_grew: Callable[[], None]
    """Called when topics have new queues; must not wait."""
    members_changed: Callable[[], None]
    """Called when members have come or gone; must not wait."""
    save_members: Callable[[str], None]
    """Has the members of a group in this process commit how far they are."""
    steady: SteadyClock
    """Shows the time of deadlines. The context's clock shows that of files, clients and people."""
    registry: MemberRegistry = attrs.field(init=False)
    arrivals: PendingFetches = attrs.field(init=False, factory=PendingFetches)
    locks: QueueLocks = attrs.field(init=False)
    sender: SendBack = attrs.field(init=False)
    growth: QueueGrowth = attrs.field(init=False)
    permissions: ReadPermissions = attrs.field(init=False)
    arrived_to: int = attrs.field(init=False, default=0)
    """Physical offset below which all messages of this opening have come to their queues."""
    known: TopicQueues = attrs.field(init=False)
    _filters: dict[tuple[str, Selector], MessageFilter | None] = attrs.field(
        init=False, factory=dict
    )

    def __attrs_post_init__(self) -> None:
        self.registry = MemberRegistry(self.members_changed, self.save_members)
        self.known = TopicQueues(self.context, self.registry, self.deleted.hides)
        self.locks = QueueLocks(self.steady)
        self.sender = SendBack(self.context, self.groups, self.topics)
        self.growth = QueueGrowth(self.topics)
        self.permissions = ReadPermissions(
            self.groups, self.topics, self.arrivals, self._topics_opened
        )
        self.deleted.settle = self._first_from

    @property
    def dispatched_to(self) -> int:
        """Physical offset below which messages are in their queues, as far as is known here."""
        return self.context.store.dispatched_to

    def clock(self) -> int:
        """See `ConsumerBackend.clock`."""
        return self.steady()

    # ------------------------------------------------------------------ messages

    def queues(self, topic: str) -> Sequence[MessageQueue]:
        """See `ConsumerBackend.queues`."""
        if topic.startswith(LIGHT_PREFIX):  # has one queue, and is in no table
            queue = MessageQueue(topic, self.broker, 0)
            return (queue,) if self.bounds(queue)[1] else ()
        if self.permissions.is_closed(topic):
            return ()
        settings = self.topics.get(topic)
        count = 0 if settings is None else settings.read_queue_nums
        return self.known.of_broker(topic, self.broker, count)

    def fetch(self, request: FetchRequest, answer: Callable[[Fetched], None]) -> None:
        """See `ConsumerBackend.fetch`."""
        if self.permissions.refuses(request, answer):
            return
        queue = request.queue
        key: QueueKey = queue.topic, queue.queue_id
        chosen = self.filter_of(queue.topic, request.selector)
        while True:
            count = self.arrivals.count(key) if request.may_wait else 0
            result = self.read(
                *key, request.queue_offset, request.max_count, request.max_bytes, chosen
            )
            found = fetched_of(result, request.queue_offset)
            is_at_end = (
                found.status is FetchStatus.NO_NEW_MESSAGE
                and found.next_offset == request.queue_offset
            )
            if not (is_at_end and request.may_wait):
                answer(found)
                return
            if self.arrivals.wait(key, count, request.member, queue, partial(answer, found)):
                return

    def drop(self, member: str, queue: MessageQueue) -> None:
        """See `ConsumerBackend.drop`."""
        self.arrivals.forget(member, queue)

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """See `ConsumerBackend.bounds`."""
        result = self.read(queue.topic, queue.queue_id, _PAST_ALL, 1)
        return result.min_queue_offset, result.max_queue_offset

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int = 256 << 10,
        filter: MessageFilter | None = None,  # noqa: A002 - the store's word
    ) -> ReadResult:
        """Read a queue as groups see it: see `reput.Store.read`, but nothing of a deleted topic.

        Raises:
            ReputError: the queue cannot be read.
        """
        if topic.startswith(RETRY_PREFIX) and self.deleted.positions:
            filter = DeletedFilter(self.deleted.positions, filter)  # noqa: A001
        floor = self.deleted.floor(topic, queue_id)
        at = max(queue_offset, floor) if floor else queue_offset  # a negative one is too small
        result = self.context.store.read(topic, queue_id, at, max_count, max_bytes, filter)
        if floor == 0:
            return result
        high = result.max_queue_offset
        low = min(max(floor, result.min_queue_offset), high)
        if queue_offset < low:
            return ReadResult(ReadStatus.OFFSET_TOO_SMALL, low, low, high)
        return attrs.evolve(result, min_queue_offset=low)

    def _first_from(self, topic: str, queue_id: int, floor: int, position: int) -> tuple[int, bool]:
        """See `DeletedTopics.settle`."""
        at, is_complete = floor, self.arrived_to >= position
        while True:
            result = self.context.store.read(topic, queue_id, at, _FEW)
            if result.status is not ReadStatus.FOUND:
                # Of messages that the log has lost nothing is seen anyhow.
                low = min(result.min_queue_offset, result.max_queue_offset)
                return max(at, low), is_complete
            for message, offset in zip(result.messages, result.queue_offsets, strict=True):
                if message.physical_offset >= position:
                    return int(offset), True
                at = int(offset) + 1

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        """See `ConsumerBackend.offset_by_time`."""
        store, key = self.context.store, (queue.topic, queue.queue_id)
        return max(store.offset_by_time(*key, timestamp, "lower"), self.deleted.floor(*key))

    def send_back(
        self, group: str, message: MessageView, level: int, max_reconsume_times: int | None
    ) -> str:
        """See `ConsumerBackend.send_back`."""
        self.check_writable()
        return self.sender.store(group, message, level, max_reconsume_times)

    def resend(self, group: str, messages: Sequence[MessageView]) -> None:
        """Give messages to a group once more; see `SendBack.resend`."""
        self.check_writable()
        self.sender.resend(group, messages)

    def filter_of(self, topic: str, selector: Selector) -> MessageFilter | None:
        """Return the filter of a selector; None for all messages.

        Raises:
            ReputError: the store cannot filter by such conditions.
            ValueError: a condition is not valid.
        """
        if selector.selects_all:
            return None
        if selector.kind == TAG:
            key = "", selector  # the same for all topics
        else:
            key = topic, selector
        found = self._filters.get(key)
        if found is None:
            if selector.kind == TAG:
                found = TagFilter(selector.tags)
            else:
                store = self.context.store
                found = store.filter(selector.expression, selector.kind, topic=topic)
            if len(self._filters) >= _FILTERS_KEPT:
                self._filters.clear()
            self._filters[key] = found
        return found

    # ------------------------------------------------------------------ offsets

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """See `ConsumerBackend.committed`.

        Where offsets were lost, a group without one is at the first message that is there: it may
        have read none of them.
        """
        found = self.offsets.get(group, queue.topic, queue.queue_id)
        if found is None and self.offsets.is_incomplete:
            return self.bounds(queue)[0]
        return found

    def commit(
        self, group: str, offsets: Mapping[MessageQueue, int], *, durable: bool = False
    ) -> None:
        """See `ConsumerBackend.commit`."""
        self.check_writable()
        self.offsets.commit(group, self._by_key(offsets))
        if durable:
            try:
                self.save()
            except BaseException:
                self.committed_something()  # a later save tries again
                raise
        elif not self.offsets.is_saved:
            self.committed_something()

    def _by_key(self, offsets: Mapping[MessageQueue, int]) -> dict[tuple[str, int], int]:
        return {
            (queue.topic, queue.queue_id): offset
            for queue, offset in offsets.items()
            if not self._is_of_deleted(queue, offset)
        }

    def _is_of_deleted(self, queue: MessageQueue, offset: int) -> bool:
        """Whether an offset counts nothing that came since its topic was deleted.

        Members commit for a while what they had; the topic would come back with that. A topic that
        is back counts, whatever the offset: a group may begin there.
        """
        topic, queue_id = queue.topic, queue.queue_id
        is_gone = topic in self.deleted and self.topics.get(topic) is None
        if not is_gone or offset > self.deleted.floor(topic, queue_id):
            return False
        return self.deleted.hides(topic, queue_id, self.bounds(queue)[1])

    def begin(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit where a group begins, durably, and faster than `commit` where there are many.

        Raises:
            ReadOnlyStoreError: the store is read-only.
            ServiceNotAvailableError: the log could not be flushed.
            OSError: the place cannot be written.
        """
        self.check_writable()
        self.flush_log()
        try:
            self.offsets.begin(group, self._by_key(offsets))
        finally:
            self.committed_something()

    def save(self) -> bool:
        """Save all offsets durably, after the messages that they count; return whether any were.

        Groups and topics that were added meanwhile are saved, too.

        If offsets outlived messages, other messages would get these offsets and never be read. So
        the offsets are taken first, then the log is flushed, then just those offsets are written.

        Raises:
            ServiceNotAvailableError: the log could not be flushed.
            OSError: the file could not be written.
        """
        was_any = self.offsets.save(self.flush_log)
        self.groups.save()
        self.topics.save()
        return was_any

    def flush_log(self) -> None:
        """Wait until every message that exists now is on disk.

        Raises:
            ServiceNotAvailableError: that takes too long.
        """
        end = self.context.log.max_physical_offset
        if not self.context.store.wait_flushed(end, _FLUSH_SECONDS):
            text = f"the log was not on disk after {_FLUSH_SECONDS:.0f} s; offsets are not saved"
            raise ServiceNotAvailableError("store", None, None, text)

    def check_writable(self) -> None:
        """Refuse a change of a store that was opened for reading.

        Raises:
            ReadOnlyStoreError: it was.
        """
        if not self.context.writable:
            raise ReadOnlyStoreError("store", None, None, _READ_ONLY)

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
        pops: bool = False,
        commits: bool = True,
        subscriptions: tuple[str, ...] | None = None,
    ) -> None:
        """See `ConsumerBackend.join`.

        Args:
            group: the group.
            member: the member's name.
            selectors: what it reads, by topic.
            changed: called when the group has other members or queues.
            broadcast: whether it reads all queues.
            mixed: whether other members may select something else, with a warning.
            pops: whether the member takes no queues for itself.
            commits: False for a member whose offsets are kept elsewhere, or nowhere: it may join in
                a store that was opened for reading, too.
            subscriptions: what it selects, for comparison; of the selectors if left out.
        """
        self.known.check_reader()
        for topic, selector in selectors.items():
            self.filter_of(topic, selector)
        settings = self.check_group(group, commits=commits)
        if broadcast and not settings.consume_broadcast_enable:
            raise GroupDisabledError(group, "consumeBroadcastEnable")
        if subscriptions is None:
            subscriptions = subscriptions_of(selectors)
        topics, now = frozenset(selectors), self.clock()
        self.registry.add(
            Membership(group, member, topics, changed, broadcast, now, pops, subscriptions, mixed)
        )

    def check_group(self, group: str, *, commits: bool = True, soon: bool = False) -> GroupSettings:
        """Return the settings of a group that may read; one that is new is added if it commits.

        Args:
            group: the group.
            commits: whether it is added.
            soon: whether that may come to disk later; see `SettingsTable.put_soon`.

        Raises:
            GroupDisabledError: it may not read.
            ReadOnlyStoreError: the store is read-only.
            UnreadableDocumentError: it is not known whether it may read, or what.
        """
        self.require_settings()
        if commits:
            self.check_writable()
            self.offsets.document.require_file()
            settings = self.groups.ensure(group, soon=soon)
        else:
            settings = self.groups.get(group) or GroupSettings(group=group)
        if not settings.consume_enable:
            raise GroupDisabledError(group, "consumeEnable")
        return settings

    def require_settings(self) -> None:
        """Refuse to go on where the settings of groups or topics are not known.

        Raises:
            UnreadableDocumentError: a file cannot be read, nor can its backup.
        """
        self.groups.require()
        self.topics.require()
        self.deleted.require()

    def leave(self, group: str, member: str) -> None:
        """See `ConsumerBackend.leave`."""
        self.arrivals.forget(member)
        self.locks.release_all(group, member)
        self.registry.remove(group, member)
        self.known.forget_unread()

    def members(self, group: str) -> Sequence[str]:
        """See `ConsumerBackend.members`."""
        return self.registry.names(group)

    def is_mixed(self, group: str) -> bool:
        """Whether members of a group select different messages; see `are_mixed`."""
        return are_mixed(self.registry.members(group))

    def lock(self, group: str, member: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """See `ConsumerBackend.lock`."""
        return self.locks.take(group, member, queues)

    def unlock(self, group: str, member: str, queues: Iterable[MessageQueue]) -> None:
        """See `ConsumerBackend.unlock`."""
        self.locks.release(group, member, queues)

    def dead_letter_count(self, group: str) -> int:
        """Return how many messages the group has given up that the log still holds."""
        low, high = self.bounds(MessageQueue(dead_letter_topic(group), self.broker, 0))
        return high - low

    # ------------------------------------------------------------------ arrivals

    def arrive(self, batch: DispatchBatch) -> None:
        """Wake members for whose queues ``batch`` has messages; on the thread of the dispatch."""
        self.arrived_to = max(self.arrived_to, batch.end_offset)
        self.known.count_arrival()
        # The topics of a replica are its master's.
        if not self.context.replica and self.growth.notice(batch):
            self.topics_grew()
        if not self.arrivals.are_awaited and not self.registry.groups():
            return
        keys = _queues_in(batch)
        if self.known.notice(keys):
            self.topics_grew()
        self.arrivals.arrive(keys)

    def _topics_opened(self, topics: Collection[str]) -> None:
        self.known.note_growth(topics)
        self.topics_grew()

    def tell_growth(self) -> None:
        """Notify members of new queues that `arrive` has seen; on a thread that may wait."""
        try:
            self.growth.grow()
        except OSError as error:
            logger.warning("topics not grown; the next round tries again: %s", error)
        grown = self.known.take_growth()
        if grown:
            self.registry.tell_readers(grown)


def _queues_in(batch: DispatchBatch) -> list[QueueKey]:
    if len(batch) <= _FEW:
        pairs = set(zip(batch.topic_code.tolist(), batch.queue_id.tolist(), strict=True))
        return [(batch.topics[code], queue_id) for code, queue_id in pairs if queue_id >= 0]
    keys = np.unique(queue_keys(batch.topic_code, batch.queue_id)).tolist()
    queues = [queue_of_key(key) for key in keys]
    return [(batch.topics[code], queue_id) for code, queue_id in queues if queue_id >= 0]


def fetched_of(result: ReadResult, queue_offset: int) -> Fetched:
    """Return the answer to a fetch at ``queue_offset``, as a broker maps the result of a read.

    Source: RocketMQ ``PullMessageProcessor``.
    """
    status, following = result.status, result.next_queue_offset
    if status is ReadStatus.FOUND:
        return Fetched(
            FetchStatus.FOUND, following, result.messages, result.queue_offsets, is_exact=True
        )
    if status in _NOT_MATCHED:
        return Fetched(FetchStatus.NO_MATCHED_MESSAGE, following)
    if status in _EMPTY:
        return Fetched(
            FetchStatus.OFFSET_ILLEGAL if queue_offset else FetchStatus.NO_NEW_MESSAGE, 0
        )
    if status in _AT_END:
        return Fetched(FetchStatus.NO_NEW_MESSAGE, following)
    return Fetched(FetchStatus.OFFSET_ILLEGAL, following)
