"""Answers pulls (11, 361), at once or when a message has come.

Source: RocketMQ ``PullMessageProcessor``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput import ReadStatus
from reput_aio import ReadPlacement
from reput_client.remoting import (
    AnswerFrames,
    Command,
    Pull,
    PullAnswer,
    PullFlag,
    PullForbidden,
    RequestCode,
    ResponseCode,
)
from reput_consumer import TAG
from reput_server.broker.clients.pullfilters import Filters
from reput_server.broker.litenames import light_queue_of
from reput_server.broker.pull.longpolling import HeldPull, PullLongPolling
from reput_server.broker.topictable import READ
from reput_server.errors import Refusal
from reput_server.wire.interfaces import Request
from reput_server.wire.requestdispatcher import answer_of_error, frame_of

if TYPE_CHECKING:
    from reput import ReadResult
    from reput_client.remoting import TopicSettings
    from reput_consumer import Selector
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.pendingresets import PendingResets
    from reput_server.config import Limits
    from reput_server.wire.interfaces import Connection
    from reput_server.wire.requestdispatcher import Handler

_COUNT_MAX: Final = 1_024
_BYTES: Final = 256 << 10
_BYTES_MAX: Final = 4 << 20
_HOLD_MS_MAX: Final = 25_000
"""Clients give a call up after 30 s."""

_RETRY_AT_ONCE: Final = frozenset({ReadStatus.NO_MATCHED_MESSAGE, ReadStatus.MESSAGE_WAS_REMOVING})
_EMPTY: Final = frozenset({ReadStatus.NO_MATCHED_LOGIC_QUEUE, ReadStatus.NO_MESSAGE_IN_QUEUE})
_NOTHING_NEW: Final = frozenset({ReadStatus.OFFSET_FOUND_NULL, ReadStatus.OFFSET_OVERFLOW_ONE})
CODES: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_COMMIT: Final = int(PullFlag.COMMIT_OFFSET)
_SUSPEND: Final = int(PullFlag.SUSPEND)


@attrs.frozen(eq=False)
class _Waiting:
    """A pull that may wait."""

    request: Request
    asked: Pull
    """As the client sent it, with its topic also where it names a lite topic."""
    pull: Pull
    selector: Selector
    until: float
    """When it is answered whatever there is, by the loop's clock, s."""


@attrs.define(eq=False, repr=False)
class PullHandlers:
    """The requests that hand messages to consumers."""

    context: BrokerContext
    filters: Filters
    held: PullLongPolling
    marks: PendingResets
    limits: Limits
    here: ReadPlacement = attrs.field(init=False)
    _found: AnswerFrames = attrs.field(init=False)
    """Makes answers with messages."""

    def __attrs_post_init__(self) -> None:
        """Make the two objects that all pulls share."""
        self.here = ReadPlacement(self.context.loop.call_soon, self.context.is_writable)
        self._found = answer_frames()

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return dict.fromkeys(CODES, self.pull)

    async def pull(self, request: Request) -> Command | None:
        """Answer with messages, or hold the pull until there are some."""
        asked = pull = request.command.header(Pull)
        await self._check(pull)
        if pull.lite_topic:
            pull = _of_light_queue(pull)
        selector = self.filters.selector(pull)
        if pull.sys_flag & _COMMIT and self.context.is_writable:
            self._commit(pull)
        result = await self._read(pull, selector)
        if self._is_held(request, asked, pull, selector, result):
            return None
        return self._answer(request.command, pull, result)

    def taken(self, peer: Connection, command: Command, pull: Pull) -> bytes | None:
        """Answer a pull whose read is on the loop, or hold it, as `pull` does.

        Returns:
            The frame of the answer; no bytes if the answer comes later or is not wanted; None if
            `pull` is to take it, which also names whatever is wrong with it.

        Raises:
            Refusal: likewise.
        """
        topic = self._readable(pull)
        if topic is None:
            return None
        selector = self.filters.selector(pull)
        began = time.monotonic()
        if not self._may_read_here(pull, selector, began):
            return None
        if pull.sys_flag & _COMMIT:
            self._commit(pull)
        result = self._read_here(pull, selector, began)
        if result.status is ReadStatus.FOUND:
            frame = self._frame(command, pull, result, topic.sys_flag)
        elif self._is_held(Request(command, peer), pull, pull, selector, result):
            return b""
        else:
            frame = frame_of(self._answer(command, pull, result))
        return b"" if command.is_one_way else frame

    def _readable(self, pull: Pull) -> TopicSettings | None:
        """Return the topic of a pull that `_check` lets pass without any question to the store."""
        context = self.context
        if not context.options.permissions & READ:
            return None
        group = context.plugin.subscription_groups.get(pull.consumer_group)
        if group is None or not group.consume_enable:
            return None
        topic = context.topics.known(pull.topic)
        if topic is None or not topic.permissions & READ:
            return None
        return topic if 0 <= pull.queue_id < topic.read_queues else None

    async def _check(self, pull: Pull) -> None:
        context = self.context
        if not context.options.permissions & READ:
            text = f"the broker[{context.address[0]}] pulling message is forbidden"
            raise Refusal(ResponseCode.NO_PERMISSION, text)
        settings = context.plugin.subscription_groups.get(pull.consumer_group)
        if settings is None:
            settings = await context.run_in_turn(context.group, pull.consumer_group)
        if not settings.consume_enable:
            text = f"subscription group no permission, {pull.consumer_group}"
            raise Refusal(ResponseCode.NO_PERMISSION, text, PullForbidden.by_group())
        topic = context.topics.known(pull.topic)
        if topic is None or not 0 <= pull.queue_id < topic.read_queues:
            topic = await context.run(lambda: context.topics.find(pull.topic, looks_again=True))
        if topic is None:
            text = f"topic[{pull.topic}] not exist, apply first please!"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, text)
        if not topic.permissions & READ:
            text = f"the topic[{pull.topic}] pulling message is forbidden"
            raise Refusal(ResponseCode.NO_PERMISSION, text, PullForbidden.by_topic())
        if not 0 <= pull.queue_id < topic.read_queues:
            text = (
                f"queueId[{pull.queue_id}] is illegal, topic:[{pull.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queues}]"
            )
            raise Refusal(ResponseCode.INVALID_PARAMETER, text)

    async def _read(self, pull: Pull, selector: Selector) -> ReadResult:
        began = time.monotonic()
        if self._may_read_here(pull, selector, began):
            return self._read_here(pull, selector, began)
        result = await self.context.run(self._result, pull, selector)
        return self._noted(pull, result, _size_of(result), time.monotonic() - began)

    def _may_read_here(self, pull: Pull, selector: Selector, now: float) -> bool:
        return selector.kind == TAG and self.here.allow(
            pull.topic, pull.queue_id, pull.queue_offset, now
        )

    def _read_here(self, pull: Pull, selector: Selector, began: float) -> ReadResult:
        """Read on the event loop, since ``began`` by the monotonic clock, s."""
        result = self._result(pull, selector)
        ended = time.monotonic()
        size = _size_of(result)
        self.here.note_read(size, began, ended)
        return self._noted(pull, result, size, ended - began)

    def _noted(self, pull: Pull, result: ReadResult, size: int, seconds: float) -> ReadResult:
        """Count what was read; return it, or where the group is to go on instead."""
        place = pull.topic, pull.queue_id, pull.queue_offset
        reset_to = self.marks.take(pull.consumer_group, *place)
        if reset_to is not None:
            size = 0
            result = attrs.evolve(
                result,
                status=ReadStatus.OFFSET_RESET,
                next_queue_offset=reset_to,
                messages=(),
                queue_offsets=(),
            )
        self._count(pull, result, size, seconds)
        return result

    def _count(self, pull: Pull, result: ReadResult, size: int, seconds: float) -> None:
        messages = result.messages
        last = messages[-1] if messages else None
        end = self.context.store.log.max_physical_offset
        if messages:
            first = result.queue_offsets[0], messages[0].physical_offset
            self.here.note_place(pull.topic, pull.queue_id, *first, end)
        self.context.statistics.pulled(
            pull.consumer_group,
            pull.topic,
            pull.queue_id,
            count=len(messages),
            size=size,
            seconds=seconds,
            behind=0 if last is None else end - last.physical_offset - last.size,
            stored=None if last is None else last.store_timestamp,
        )

    def _is_held(
        self, request: Request, asked: Pull, pull: Pull, selector: Selector, result: ReadResult
    ) -> bool:
        """Hold a pull that may wait and found nothing yet; False if it is to be answered."""
        if result.status is ReadStatus.FOUND or not pull.sys_flag & _SUSPEND:
            return False
        # After a reset, what the client has counted until now is over.
        if result.status is ReadStatus.OFFSET_RESET:
            return False
        seconds = min(max(pull.suspend_timeout_millis, 0), _HOLD_MS_MAX) / 1000
        until = self.context.loop.time() + seconds
        return self._hold(_Waiting(_slim(request), asked, pull, selector, until), result)

    def _hold(self, waiting: _Waiting, result: ReadResult) -> bool:
        """Hold a pull that found nothing yet; False if it is to be answered."""
        loop, pull, peer = self.context.loop, waiting.pull, waiting.request.peer
        code, following = _code_of(result, pull.queue_offset)
        if code != ResponseCode.PULL_NOT_FOUND or loop.time() >= waiting.until:
            return False
        if len(self.held) >= self.limits.held_pulls or not peer.is_open:
            return False
        size = sum(map(len, (pull.consumer_group, pull.topic, pull.subscription or "")))
        if self.held.size + size > self.limits.held_bytes:
            return False
        if result.status is not ReadStatus.OFFSET_OVERFLOW_ONE and result.status not in _EMPTY:
            return False  # a place that cannot be read: the client goes on behind it
        queue = self.context.queue(pull.topic, pull.queue_id)
        # The offset at which the queue was at its end: with none yet, a message comes at 0.
        at = 0 if result.status in _EMPTY else pull.queue_offset
        self.held.hold(
            HeldPull(peer, queue, at, waiting.until, lambda: self._look_again(waiting), size)
        )
        self._note_handed_out(pull, following)
        return True

    async def _look_again(self, waiting: _Waiting) -> None:
        """Answer a pull that waited, unless there is nothing still."""
        request, pull = waiting.request, waiting.pull
        try:
            if self._readable(waiting.asked) is None:  # the group may have been paused since
                await self._check(waiting.asked)
            result = await self._read(pull, waiting.selector)
            if self._hold(waiting, result):
                return
            answer = self._answer(request.command, pull, result)
        except Exception as error:  # the peer waits for an answer
            answer = answer_of_error(request.command, error)
        request.peer.answer(request.command, answer)

    def _result(self, pull: Pull, selector: Selector) -> ReadResult:
        """Read; on a thread that may wait."""
        chosen = self.filters.compiled(pull.topic, selector)
        return self.context.plugin.port.read(
            pull.topic,
            pull.queue_id,
            pull.queue_offset,
            max(1, min(pull.max_msg_nums, _COUNT_MAX)),
            max(1, min(pull.max_msg_bytes or _BYTES, _BYTES_MAX)),
            chosen,
        )

    def _commit(self, pull: Pull) -> None:
        """Note how far the group is: in memory, and before the read, which newer ones overtake."""
        place = pull.topic, pull.queue_id
        # After a reset by an operator, what the client has counted until now is over.
        if pull.commit_offset >= 0 and not self.marks.has(pull.consumer_group, *place):
            queue = self.context.queue(pull.topic, pull.queue_id)
            self.context.port.commit(pull.consumer_group, {queue: pull.commit_offset})

    def _note_handed_out(self, pull: Pull, following: int) -> None:
        self.context.handed_out[pull.consumer_group, pull.topic, pull.queue_id] = following

    def _frame(
        self, command: Command, pull: Pull, result: ReadResult, topic_sys_flag: int
    ) -> bytes:
        """Return the frame of what `_answer` returns, of a read that has found messages."""
        if result.messages[0].size > _BYTES_MAX:  # the frame may be too long
            return frame_of(self._answer(command, pull, result))
        following = result.next_queue_offset
        self._note_handed_out(pull, following)
        low, high = result.min_queue_offset, result.max_queue_offset
        records = [message.record for message in result.messages]
        return self._found.frame(
            command.opaque, 0, following, low, high, topic_sys_flag, 0, body=records
        )

    def _answer(self, command: Command, pull: Pull, result: ReadResult) -> Command:
        code, following = _code_of(result, pull.queue_offset)
        self._note_handed_out(pull, following)
        topic = self.context.topics.known(pull.topic)
        header = PullAnswer(
            suggest_which_broker_id=0,
            next_begin_offset=following,
            min_offset=result.min_queue_offset,
            max_offset=result.max_queue_offset,
            topic_sys_flag=topic.sys_flag if topic is not None else 0,
            group_sys_flag=0,
        )
        body = b"".join([message.record for message in result.messages])
        return command.answer(code, header, remark=result.status.name, body=body)


def _size_of(result: ReadResult) -> int:
    return sum([message.size for message in result.messages])


def answer_frames() -> AnswerFrames:
    """Return what makes the answers to pulls that have found messages."""
    names = (
        "suggestWhichBrokerId",
        "nextBeginOffset",
        "minOffset",
        "maxOffset",
        "topicSysFlag",
        "groupSysFlag",
    )
    return AnswerFrames.of(ResponseCode.SUCCESS, names, {}, remark=ReadStatus.FOUND.name)


def _slim(request: Request) -> Request:
    """Return a request without what its answer does not need: it may be kept for half a minute."""
    command = request.command
    kept = Command(command.code, opaque=command.opaque, flag=command.flag)
    return attrs.evolve(request, command=kept)


def _code_of(result: ReadResult, queue_offset: int) -> tuple[int, int]:
    """Return the code of a pull's answer, and where the next pull begins."""
    status, following = result.status, result.next_queue_offset
    if status is ReadStatus.FOUND:
        return ResponseCode.SUCCESS, following
    if status in _RETRY_AT_ONCE:
        return ResponseCode.PULL_RETRY_IMMEDIATELY, following
    if status in _EMPTY:
        code = ResponseCode.PULL_OFFSET_MOVED if queue_offset else ResponseCode.PULL_NOT_FOUND
        return code, 0
    if status in _NOTHING_NEW:
        return ResponseCode.PULL_NOT_FOUND, following
    return ResponseCode.PULL_OFFSET_MOVED, following


def _of_light_queue(pull: Pull) -> Pull:
    """Return a pull from the light queue of the lite topic that a pull names.

    Raises:
        Refusal: there cannot be such a lite topic.
    """
    try:
        name = light_queue_of(pull.topic, pull.lite_topic or "")
    except ValueError as error:
        raise Refusal(ResponseCode.INVALID_PARAMETER, str(error)) from None
    return attrs.evolve(pull, topic=name)  # it has one queue, 0; others are empty
