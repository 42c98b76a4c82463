"""Answers clients that pop (200050, 200054, 200055), at once or when a message has come.

Source: RocketMQ ``PopMessageProcessor``, ``NotificationProcessor``, ``PollingInfoProcessor``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from reput_client.remoting import (
    Notification,
    NotificationAnswer,
    PollingInfo,
    PollingInfoAnswer,
    Pop,
    PopAnswer,
    RequestCode,
    ResponseCode,
)
from reput_consumer import (
    EARLIEST,
    LATEST,
    TAG,
    GroupDisabledError,
    GroupKindError,
    PopRequest,
    Start,
)
from reput_server.broker.pop.longpolling import PollsFullError
from reput_server.broker.pop.receipthandles import answer_of
from reput_server.broker.topictable import READ
from reput_server.errors import Refusal
from reput_server.wire.requestdispatcher import answer_of_error

if TYPE_CHECKING:
    from reput_client.remoting import Command
    from reput_consumer import Popped
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.pullfilters import Filters
    from reput_server.broker.pop.longpolling import PopLongPolling, PopSource
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_COUNT_MAX: Final = 32
_BYTES: Final = 4 << 20
"""Bytes of one answer's messages; further ones are left to the next request."""
INVISIBLE_MAX_MS: Final = 12 * 3_600_000
_POLL_MS_MAX: Final = 60_000
_FROM_FIRST: Final = 0
_ATTEMPT_LENGTH: Final = 200
_EXPRESSION_MAX: Final = 10_000
"""Characters of a condition, which a request that waits keeps in memory."""


class HeaderOf(Protocol):
    """Makes the header of an answer that hands messages out."""

    def __call__(
        self, found: Sequence[Popped], invisible_ms: int, *, is_ordered: bool
    ) -> PopAnswer:
        """Return it."""
        ...


@attrs.frozen(eq=False)
class PopHandlers:
    """The requests that hand messages out one by one."""

    context: BrokerContext
    filters: Filters
    polls: PopLongPolling
    _waiting: set[asyncio.Task[None]] = attrs.field(init=False, factory=set)

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.POP_MESSAGE: self.pop,
            RequestCode.NOTIFICATION: self.notify,
            RequestCode.POLLING_INFO: self.info,
        }

    # ------------------------------------------------------------------ messages

    async def pop(self, request: Request) -> Command | None:
        """Answer with messages, now or when there are some."""
        asked: Pop = request.command.header(Pop)
        if asked.max_msg_nums > _COUNT_MAX:
            text = f"the broker[{self.context.address[0]}] pop message's num is greater than 32"
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        await self.check(asked, "pop message")
        self.context.check_writable()
        expression = asked.exp or "*"
        if len(expression) > _EXPRESSION_MAX:
            text = f"the condition has {len(expression)} characters; {_EXPRESSION_MAX} at most"
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text)
        selector = self.filters.selector_of(expression, asked.exp_type or TAG)
        await self.context.run(self.filters.compiled, asked.topic, selector)
        pop = PopRequest(
            group=asked.consumer_group,
            topic=asked.topic,
            selector=selector,
            max_count=max(asked.max_msg_nums, 1),
            max_bytes=_BYTES,
            invisible_ms=min(max(asked.invisible_time, 0), INVISIBLE_MAX_MS),
            start=await self.context.run(self._start, asked),
            attempt=(asked.attempt_id or "")[:_ATTEMPT_LENGTH],
            is_ordered=True if asked.order else None,
            queue_id=None if asked.queue_id < 0 else asked.queue_id,
        )
        return await self.hand_out(request, pop, asked.poll_time)

    async def hand_out(
        self,
        request: Request,
        pop: PopRequest,
        poll_ms: int,
        source: PopSource | None = None,
        header_of: HeaderOf | None = None,
    ) -> Command | None:
        """Answer with the messages that a request pops, or wait for some.

        Args:
            request: the client's request.
            pop: the same as the store takes it.
            poll_ms: how long it may wait.
            source: where the messages come from; None for the queues of the topic.
            header_of: makes the header of the answer, if it is another one than `answer_of` makes.
        """
        command = _slim(request.command)
        take = partial(self._popped, request, command, pop, source, header_of)
        answer = await take(0)
        seconds = _seconds(poll_ms)
        if answer is None or answer.code != ResponseCode.POLLING_TIMEOUT or not seconds:
            return answer
        self._hold(request, self._pop_later(request, command, take(seconds)))
        return None

    def _start(self, asked: Pop) -> Start:
        """Return where a new group begins: as members that pull do; on a thread that may wait.

        See `OffsetHandlers.committed`: at the first message, too, if the log still has the topic
        from its beginning.
        """
        port = self.context.plugin.port
        if asked.init_mode == _FROM_FIRST or port.offsets.knows(asked.consumer_group, asked.topic):
            return Start(EARLIEST if asked.init_mode == _FROM_FIRST else LATEST)
        floor = self.context.plugin.deleted.floor
        are_whole = all(
            port.bounds(queue)[0] <= floor(queue.topic, queue.queue_id)
            for queue in port.queues(asked.topic)
        )
        return Start(EARLIEST if are_whole else LATEST)

    async def _pop_later(
        self, request: Request, command: Command, popped: Awaitable[Command | None]
    ) -> None:
        try:
            answer = await popped
        except Exception as error:  # the peer waits for an answer
            answer = answer_of_error(command, error)
        if answer is not None:
            request.peer.answer(command, answer)

    async def _popped(
        self,
        request: Request,
        command: Command,
        pop: PopRequest,
        source: PopSource | None,
        header_of: HeaderOf | None,
        seconds: float,
    ) -> Command | None:
        """Return the answer; None if nobody waits for it any more."""
        begun = time.monotonic()
        try:
            found = await self.polls.popped(pop, seconds, source=source)
        except PollsFullError as error:
            return command.answer(ResponseCode.POLLING_FULL, PopAnswer(), remark=str(error))
        except (GroupKindError, GroupDisabledError) as error:
            raise Refusal(ResponseCode.NO_PERMISSION, str(error)) from None
        except ValueError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if not found:
            header = PopAnswer(invisible_time=pop.invisible_ms)
            return command.answer(
                ResponseCode.POLLING_TIMEOUT, header, remark="NO_MESSAGE_IN_QUEUE"
            )
        if not request.peer.is_open:
            self.polls.give_back(pop, found, source)
            return None
        try:
            self._count(pop, found, time.monotonic() - begun)
            make = header_of or answer_of
            header = make(found, pop.invisible_ms, is_ordered=bool(pop.is_ordered))
            body = b"".join([each.view.record for each in found])
        except BaseException:  # no memory is left
            self.polls.give_back(pop, found, source)
            raise
        return command.answer(ResponseCode.SUCCESS, header, remark="FOUND", body=body)

    def _count(self, pop: PopRequest, found: list[Popped], seconds: float) -> None:
        by_queue: dict[tuple[str, int], list[Popped]] = {}
        for each in found:
            by_queue.setdefault((each.view.topic, each.handle.queue_id), []).append(each)
        end = self.context.store.log.max_physical_offset
        for (topic, queue_id), messages in by_queue.items():
            last = messages[-1].view
            self.context.statistics.pulled(
                pop.group,
                topic,
                queue_id,
                count=len(messages),
                size=sum([each.view.size for each in messages]),
                seconds=seconds,
                behind=end - last.physical_offset - last.size,
                stored=last.store_timestamp,
            )

    # ------------------------------------------------------------------ whether there are any

    async def notify(self, request: Request) -> Command | None:
        """Answer whether messages have come, now or when some have."""
        asked: Notification = request.command.header(Notification)
        await self.check(asked, "peeking message")
        pop = PopRequest(
            group=asked.consumer_group,
            topic=asked.topic,
            is_ordered=True if asked.order else None,
            queue_id=None if asked.queue_id < 0 else asked.queue_id,
        )
        command = _slim(request.command)
        answer = await self._notified(command, pop, 0)
        seconds = _seconds(asked.poll_time)
        if answer.header(NotificationAnswer).has_msg or not seconds:
            return answer
        self._hold(request, self._notify_later(request, command, pop, seconds))
        return None

    async def _notify_later(
        self, request: Request, command: Command, pop: PopRequest, seconds: float
    ) -> None:
        try:
            answer = await self._notified(command, pop, seconds)
        except Exception as error:  # the peer waits for an answer
            answer = answer_of_error(command, error)
        request.peer.answer(command, answer)

    async def _notified(self, command: Command, pop: PopRequest, seconds: float) -> Command:
        try:
            header = NotificationAnswer(has_msg=await self.polls.has_messages(pop, seconds))
        except PollsFullError:
            header = NotificationAnswer(polling_full=True)
        except ValueError as error:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(error)) from None
        return command.answer(ResponseCode.SUCCESS, header)

    async def info(self, request: Request) -> Command:
        """Answer how many requests wait."""
        asked: PollingInfo = request.command.header(PollingInfo)
        await self.check(asked, "peeking message")
        queue_id = None if asked.queue_id < 0 else asked.queue_id
        count = self.polls.count_of(asked.consumer_group, asked.topic, queue_id)
        header = PollingInfoAnswer(polling_num=count)
        return request.command.answer(ResponseCode.SUCCESS, header)

    # ------------------------------------------------------------------ what all have in common

    def _hold(self, request: Request, work: Coroutine[Any, Any, None]) -> None:
        """Have something done that may take long, and that ends with the connection."""
        task = self.context.loop.create_task(work)
        self._waiting.add(task)
        peer = request.peer

        def end(_: object) -> None:
            self._waiting.discard(task)
            peer.forget(task)

        task.add_done_callback(end)
        peer.remember(task, task.cancel)

    async def check(self, asked: Pop | Notification | PollingInfo, what: str) -> None:
        """Refuse a request for what may not be read.

        Raises:
            Refusal: it may not be.
        """
        context = self.context
        if not context.options.permissions & READ:
            text = f"the broker[{context.address[0]}] {what} is forbidden"
            raise Refusal(ResponseCode.NO_PERMISSION, text)
        topic = context.topics.known(asked.topic)
        if topic is None or asked.queue_id >= topic.read_queues:
            topic = await context.run(lambda: context.topics.find(asked.topic, looks_again=True))
        if topic is None:
            text = f"topic[{asked.topic}] not exist, apply first please!"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        if not topic.permissions & READ:
            text = f"the topic[{asked.topic}] peeking message is forbidden"
            raise Refusal(ResponseCode.NO_PERMISSION, text)
        if asked.queue_id >= topic.read_queues:
            text = (
                f"queueId[{asked.queue_id}] is illegal, topic:[{asked.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]"
            )
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)
        settings = context.plugin.subscription_groups.get(asked.consumer_group)
        if settings is None:
            settings = await context.run_in_turn(context.group, asked.consumer_group)
        if not settings.consume_enable:
            text = f"subscription group no permission, {asked.consumer_group}"
            raise Refusal(ResponseCode.NO_PERMISSION, text)


def _seconds(poll_ms: int) -> float:
    return min(max(poll_ms, 0), _POLL_MS_MAX) / 1_000


def _slim(command: Command) -> Command:
    """Return a request without what its answer does not need: it may be kept for a minute."""
    return attrs.evolve(command, fields={}, body=b"", remark=None)
