"""`RemoteBackend`: brokers behind a network as a `reput_consumer.ConsumerBackend`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from reput.errors import ReputError
from reput_client.consumer.offsetreset import offsets_of
from reput_client.consumer.pendingpulls import PendingPulls
from reput_client.errors import BrokerError, ClientError
from reput_client.remoting import (
    MASTER_ID,
    BodyObject,
    Command,
    GroupOf,
    GroupOffset,
    OffsetAnswer,
    OffsetByTime,
    QueueLocks,
    QueueName,
    QueueOf,
    RequestCode,
    ResetOffset,
    ResponseCode,
    SendBack,
    UpdateGroupOffset,
    decode_locked,
    write_body,
)
from reput_client.session.brokersession import Answerer, BrokerSession, Membership, subscription
from reput_consumer import (
    TAG,
    Fetched,
    FetchRequest,
    MemberExistsError,
    MessageQueue,
    Selector,
    SteadyClock,
    SubscriptionMismatchError,
    are_mixed,
    retry_topic,
)

if TYPE_CHECKING:
    from reput.record import MessageView
    from reput_client.clientruntime import ClientRuntime
    from reput_client.producer.sentoffsets import SentOffsets

logger = logging.getLogger(__name__)

_NO_MEMBERS: Final = "no consumer for this group"
_SHOWN_PAUSES: Final = (0.002, 0.01, 0.05, 0.2, 0.7)
"""Seconds between looks at a queue that does not show what was sent to it; a second in all."""


class RemoteBackend:
    """See `reput_consumer.ConsumerBackend`. Thread-safe; not to be called on the loop's thread."""

    answers_later: ClassVar[bool] = True

    def __init__(
        self,
        runtime: ClientRuntime,
        do: Callable[[object, Callable[[], None]], None],
        reset: Callable[[str, Mapping[MessageQueue, int]], None],
        resend: Callable[[str, MessageView], None],
        ends: SentOffsets,
        answerers: Callable[[str, str], Mapping[int, Answerer]] = lambda group, member: {},
    ) -> None:
        """Make the backend of a client.

        Args:
            runtime: the client's.
            do: has a job carried out on a thread that may wait, once if its key waits already.
            reset: has members of a group go on at other offsets.
            resend: puts a message into the retry topic of a group, where no broker can send it
                back.
            ends: how far the client itself has filled queues.
            answerers: returns what else answers brokers for a member of a group.
        """
        self._runtime = runtime
        self.steady = SteadyClock(runtime.clock)
        """Shows the time of deadlines."""
        self._do = do
        self._reset = reset
        self._resend = resend
        self._ends = ends
        self._answerers = answerers
        self._sessions: dict[tuple[str, str], BrokerSession] = {}
        """By group and client id. Used on the loop's thread."""
        self._locked: dict[tuple[str, str], set[MessageQueue]] = {}
        """By group and client id, queues that brokers keep locked. Used on the loop's thread."""
        self._unchecked: dict[tuple[str, str], set[str]] = {}
        """By group and client id, topics whose conditions no broker has looked at yet."""
        self._visiting: set[asyncio.Task[None]] = set()
        self._pulls = PendingPulls(
            runtime.routes, self._connections_of, runtime.options.retry_interval
        )

    def clock(self) -> int:
        """See `ConsumerBackend.clock`."""
        return self.steady()

    def _connections_of(self, group: str, member: str) -> Any:
        session = self._sessions.get((group, member), self._runtime.session)
        return session.connections

    # ------------------------------------------------------------------ messages

    def queues(self, topic: str) -> list[MessageQueue]:
        """See `ConsumerBackend.queues`."""
        return sorted(set(self._runtime.call(self._runtime.routes.queues(topic))))

    def fetch(self, request: FetchRequest, answer: Callable[[Fetched], None]) -> None:
        """See `ConsumerBackend.fetch`; a fetch that fails is tried again every second."""
        self._runtime.call_soon(self._pulls.begin, request, answer)

    def drop(self, member: str, queue: MessageQueue) -> None:
        """See `ConsumerBackend.drop`."""
        self._runtime.call_soon(self._pulls.drop, member, queue)

    def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """See `ConsumerBackend.bounds`."""
        return self._runtime.call(self._bounds(queue))

    async def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        header = QueueOf(topic=queue.topic, queue_id=queue.queue_id)
        low, high = await asyncio.gather(
            self._offset(queue, RequestCode.GET_MIN_OFFSET, header),
            self._offset(queue, RequestCode.GET_MAX_OFFSET, header),
        )
        for pause in _SHOWN_PAUSES:
            if high >= self._ends.of(queue):
                break
            await asyncio.sleep(pause)  # what this client has sent is in the queue a moment later
            high = await self._offset(queue, RequestCode.GET_MAX_OFFSET, header)
        self._ends.forget(queue)
        return max(low, 0), max(high, 0)

    def offset_by_time(self, queue: MessageQueue, timestamp: int) -> int:
        """See `ConsumerBackend.offset_by_time`."""
        header = OffsetByTime(topic=queue.topic, queue_id=queue.queue_id, timestamp=timestamp)
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return self._runtime.call(self._offset(queue, code, header))

    async def _offset(self, queue: MessageQueue, code: RequestCode, header: object) -> int:
        address = await self._runtime.routes.master(queue)
        answer = await self._runtime.ask(address, Command.request(code, header))
        found: OffsetAnswer = answer.header(OffsetAnswer)
        return found.offset

    def send_back(
        self, group: str, message: MessageView, level: int, max_reconsume_times: int | None
    ) -> str:
        """See `ConsumerBackend.send_back`."""
        try:
            self._runtime.call(self._send_back(group, message, level, max_reconsume_times))
        except ClientError as error:
            if level < 0:
                raise  # a retry topic does not make a dead letter at once
            logger.warning("message not sent back, but sent again group=%s: %s", group, error)
            self._resend(group, message)
        # The broker knows the limit of the group, and does not answer which of the two it was.
        return "dead letter" if level < 0 else "retry, or dead letter after the last one"

    async def _send_back(
        self, group: str, message: MessageView, level: int, max_reconsume_times: int | None
    ) -> None:
        header = SendBack(
            offset=message.stated_offset,
            group=group,
            delay_level=level,
            origin_msg_id=message.msg_id,
            origin_topic=message.topic,
            unit_mode=False,
            max_reconsume_times=max_reconsume_times,
        )
        address = self._store_of(message)
        command = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        await self._runtime.ask(address, command)

    def _store_of(self, message: MessageView) -> str:
        """Return the address of the broker that has stored a message."""
        host, port = message.store_host
        stated = f"{host}:{port}"
        known = self._runtime.routes.all_brokers({message.topic})
        # A broker behind another address than its own: the only broker.
        return next(iter(known)) if stated not in known and len(known) == 1 else stated

    # ------------------------------------------------------------------ offsets

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """See `ConsumerBackend.committed`."""
        return self._runtime.call(self._committed(group, queue))

    async def _committed(self, group: str, queue: MessageQueue) -> int | None:
        header = GroupOffset(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
        command = Command.request(RequestCode.QUERY_CONSUMER_OFFSET, header)
        address = await self._runtime.routes.broker(queue, MASTER_ID)
        answer = await self._runtime.ask(address, command, ResponseCode.QUERY_NOT_FOUND)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        found: OffsetAnswer = answer.header(OffsetAnswer)
        return found.offset if found.offset >= 0 else None

    def commit(
        self, group: str, offsets: Mapping[MessageQueue, int], *, durable: bool = False
    ) -> None:
        """See `ConsumerBackend.commit`; when a broker's file is on its disk is up to the broker."""
        self._runtime.call(self._commit(group, dict(offsets)))

    async def _commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        async def commit(queue: MessageQueue, offset: int) -> None:
            header = UpdateGroupOffset(
                consumer_group=group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                commit_offset=offset,
            )
            # A slave keeps it, too, until its master is back.
            address = await self._runtime.routes.broker(queue, MASTER_ID)
            command = Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
            await self._runtime.ask(address, command)

        # Answered, unlike the Java client's: an offset that got lost is committed again.
        await _all(commit(queue, offset) for queue, offset in offsets.items())

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
        """See `ConsumerBackend.join`."""
        version = self._runtime.clock()
        self._runtime.call(
            self._join(member, Membership(group, selectors, version, broadcast, changed), mixed)
        )

    async def _join(self, member: str, membership: Membership, mixed: bool) -> None:
        key = membership.group, member
        if key in self._sessions:
            raise MemberExistsError(*key)
        for (group, _), session in self._sessions.items():  # as far as members are known here
            other = session.member
            if mixed or group != membership.group or other is None:
                continue
            if are_mixed((membership, other)):
                has, asked = other.subscriptions, membership.subscriptions
                raise SubscriptionMismatchError(group, has, asked)
        session = self._sessions[key] = self._runtime.new_session(member)
        session.member = membership
        session.topics = membership.topics
        session.answerers |= {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._notified,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_by_broker,
            **self._answerers(membership.group, member),
        }
        try:
            for topic in membership.topics:
                self._runtime.routes.want(topic)
                await self._runtime.routes.ask(topic)
            self._unchecked[key] = set(membership.topics)
            await self._check_conditions(member, membership)
            await session.beat()
            # The first heartbeat has made the retry topic.
            await self._runtime.routes.ask(retry_topic(membership.group))
        except BaseException:
            del self._sessions[key]
            self._unchecked.pop(key, None)
            await self._runtime.end_session(session)
            raise

    async def _check_conditions(self, member: str, membership: Membership) -> None:
        """Have a broker check conditions in SQL, as no heartbeat reports their faults.

        Conditions on topics that no broker has yet are checked when one has.
        """
        unchecked = self._unchecked.get((membership.group, member), set())
        for topic, selector in membership.selectors.items():
            address = self._runtime.routes.one_broker({topic})
            if topic not in unchecked or address is None:
                continue
            unchecked.discard(topic)
            if selector.kind == TAG:
                continue
            body = {
                "clientId": member,
                "group": membership.group,
                "subscriptionData": subscription(topic, selector, membership.version).members(),
            }
            command = Command(RequestCode.CHECK_CLIENT_CONFIG, body=write_body(body))
            try:
                await self._runtime.ask(address, command)
            except BrokerError as error:
                if error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
                    text = f"selector {selector.expression[:100]!r}: {error.remark}"
                    raise ValueError(text) from error
                raise

    async def _notified(self, address: str, command: Command) -> None:
        found: GroupOf = command.header(GroupOf)
        for (group, member), session in self._sessions.items():
            if group == found.consumer_group and session.member is not None:
                self._do((group, member), session.member.changed)

    async def _reset_by_broker(self, address: str, command: Command) -> None:
        header: ResetOffset = command.header(ResetOffset)
        offsets = offsets_of(command.body)
        logger.info("reset by an operator group=%s topic=%s", header.group, header.topic)
        key = header.group, header.topic, header.timestamp
        self._do(key, lambda: self._reset(header.group, offsets))

    def leave(self, group: str, member: str) -> None:
        """See `ConsumerBackend.leave`."""
        self._runtime.call(self._leave(group, member))

    async def _leave(self, group: str, member: str) -> None:
        self._pulls.drop_all(member)
        await self._unlock(group, member, list(self._locked.get((group, member), ())))
        self._locked.pop((group, member), None)
        self._unchecked.pop((group, member), None)
        session = self._sessions.pop((group, member), None)
        if session is not None:
            await self._runtime.end_session(session)

    def tell_all(self) -> None:
        """Have all members look at their share again."""
        self._runtime.call_soon(self.tell_of_routes, None)

    def tell_of_routes(self, topics: set[str] | None) -> None:
        """Have the members that read one of ``topics`` look again. On the loop's thread."""
        for key, session in self._sessions.items():
            member = session.member
            if member is None or not (topics is None or topics & member.topics):
                continue
            if topics is None:
                self._do(key, member.changed)
            else:
                task = asyncio.get_running_loop().create_task(self._visit_then_tell(key, session))
                self._visiting.add(task)
                task.add_done_callback(self._visiting.discard)

    async def _visit_then_tell(self, key: tuple[str, str], session: BrokerSession) -> None:
        """Notify a member of changed routes once their brokers count it among its group."""
        await session.beat(only_new=True)
        member = session.member
        if member is None:
            return
        self._do(key, member.changed)
        try:
            await self._check_conditions(session.client_id, member)
        except (ClientError, ValueError) as error:
            # Too late for the call that opened the consumer: no broker could check them then.
            logger.error("nothing is read group=%s: %s", member.group, error)

    def members(self, group: str) -> list[str]:
        """See `ConsumerBackend.members`."""
        return self._runtime.call(self._members(group))

    async def _members(self, group: str) -> list[str]:
        topics = {
            topic
            for (name, _), session in self._sessions.items()
            if name == group
            for topic in session.topics
        }
        address = self._runtime.routes.one_broker(topics or {retry_topic(group)})
        if address is None:
            return []
        command = Command.request(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupOf(consumer_group=group)
        )
        try:
            answer = await self._runtime.ask(address, command)
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR and error.remark.startswith(_NO_MEMBERS):
                return []
            raise
        body = BodyObject.of(answer.body, "members of a group")
        return sorted(set(body.texts("consumerIdList")))

    def lock(self, group: str, member: str, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """See `ConsumerBackend.lock`; queues of brokers that do not answer are not locked."""
        return self._runtime.call(self._lock(group, member, list(queues)))

    async def _lock(self, group: str, member: str, queues: list[MessageQueue]) -> set[MessageQueue]:
        async def lock(some: list[MessageQueue]) -> set[MessageQueue]:
            try:
                address = await self._runtime.routes.master(some[0])
                command = _locking(RequestCode.LOCK_BATCH_MQ, group, member, some)
                answer = await self._connections_of(group, member).ask(
                    address, command, self._runtime.options.request_timeout
                )
                taken = set(some) & decode_locked(answer.body)
                self._locked.setdefault((group, member), set()).update(taken)
                return taken
            except ReputError as error:
                logger.warning("queues not locked group=%s: %s", group, error)
                return set()

        found = await asyncio.gather(*(lock(some) for some in _by_broker(queues)))
        return set().union(*found)

    def unlock(self, group: str, member: str, queues: Iterable[MessageQueue]) -> None:
        """See `ConsumerBackend.unlock`."""
        self._runtime.call(self._unlock(group, member, list(queues)))

    async def _unlock(self, group: str, member: str, queues: list[MessageQueue]) -> None:
        self._locked.get((group, member), set()).difference_update(queues)
        for some in _by_broker(queues):
            try:
                address = await self._runtime.routes.master(some[0])
                command = _locking(RequestCode.UNLOCK_BATCH_MQ, group, member, some)
                await self._connections_of(group, member).ask(
                    address, command, self._runtime.options.request_timeout
                )
            except ClientError as error:  # a broker forgets locks that nobody extends
                logger.warning("queues not unlocked group=%s: %s", group, error)


async def _all(work: Iterable[Any]) -> None:
    """Carry out everything, and raise the first error then."""
    for found in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found


def _by_broker(queues: list[MessageQueue]) -> list[list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = {}
    for each in queues:
        found.setdefault(each.broker, []).append(each)
    return list(found.values())


def _locking(code: RequestCode, group: str, member: str, queues: Iterable[MessageQueue]) -> Command:
    named = frozenset(QueueName(*each) for each in queues)
    return Command(code, body=QueueLocks(group=group, client_id=member, queues=named).encode())
