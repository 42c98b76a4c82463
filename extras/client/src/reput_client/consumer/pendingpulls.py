"""`PendingPulls`: fetches under way at brokers, tried again until answered or given up.

Source: RocketMQ ``DefaultMQPushConsumerImpl#pullMessage`` and ``PullAPIWrapper``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from reput.errors import CorruptFileError, ReputError
from reput.record import MessageView, unwrapped
from reput_client.errors import BrokerError, ClientError
from reput_client.remoting import (
    MASTER_ID,
    Command,
    Pull,
    PullAnswer,
    PullFlag,
    RequestCode,
    ResponseCode,
)
from reput_consumer import Fetched, FetchRequest, FetchStatus, MessageQueue

if TYPE_CHECKING:
    from reput_client.connection.connectionpool import ConnectionPool
    from reput_client.route.routetable import RouteTable

logger = logging.getLogger(__name__)

_WAIT_MS: Final = 15_000
"""How long a broker may keep a fetch until a message comes."""
_ANSWER_SECONDS: Final = 30.0
_STATUSES: Final = {
    ResponseCode.SUCCESS: FetchStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: FetchStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: FetchStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: FetchStatus.OFFSET_ILLEGAL,
}
_SIZE_BYTES: Final = 4
_Key = tuple[str, MessageQueue]


class PendingPulls:
    """Fetches by member and queue, one of each. Used on the loop's thread."""

    def __init__(
        self,
        routes: RouteTable,
        connections_of: Callable[[str, str], ConnectionPool],
        again_seconds: float,
    ) -> None:
        """Begin without a fetch.

        Args:
            routes: where queues are.
            connections_of: returns the connections of a member by group and client id.
            again_seconds: time until a failed fetch is tried again.
        """
        self._again_seconds = again_seconds
        self._routes = routes
        self._connections_of = connections_of
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._suggested: dict[MessageQueue, int] = {}
        """The broker id that the last answer has suggested."""

    def begin(self, request: FetchRequest, answer: Callable[[Fetched], None]) -> None:
        """Fetch, and call ``answer`` with what was found."""
        key = request.member, request.queue
        self.drop(*key)
        task = asyncio.get_running_loop().create_task(self._pull(request, answer))
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: _Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("fetch ended queue=%s", key[1], exc_info=error)

    def drop(self, member: str, queue: MessageQueue) -> None:
        """Give a fetch up."""
        task = self._tasks.pop((member, queue), None)
        if task is not None:
            task.cancel()

    def drop_all(self, member: str) -> None:
        """Give all fetches of a member up."""
        for key in [key for key in self._tasks if key[0] == member]:
            self.drop(*key)

    async def _pull(self, request: FetchRequest, answer: Callable[[Fetched], None]) -> None:
        while (found := await self._found(request)) is None:
            await asyncio.sleep(self._again_seconds)
            await self._look_for_route(request.queue.topic)
        answer(found)

    async def _found(self, request: FetchRequest) -> Fetched | None:
        """Return the answer to a fetch; None if it failed."""
        try:
            return await self._ask(request)
        except ReputError as error:
            logger.warning(
                "fetch failed and is tried again group=%s queue=%s: %s",
                *(request.group, request.queue, error),
            )
            return None

    async def _look_for_route(self, topic: str) -> None:
        try:
            await self._routes.ask(topic)
        except ClientError as error:
            logger.debug("route not looked for topic=%s: %s", topic, error)

    async def _ask(self, request: FetchRequest) -> Fetched:
        queue, selector = request.queue, request.selector
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if request.may_wait else 0)
        header = Pull(
            consumer_group=request.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=request.queue_offset,
            max_msg_nums=request.max_count,
            sys_flag=int(flags),
            commit_offset=0,
            suspend_timeout_millis=_WAIT_MS,
            subscription="*" if selector.selects_all else selector.expression,
            sub_version=0,
            expression_type=selector.kind,
            max_msg_bytes=request.max_bytes,
        )
        address = await self._routes.broker(queue, self._suggested.get(queue, MASTER_ID))
        connections = self._connections_of(request.group, request.member)
        answer = await connections.request(
            address, Command.request(RequestCode.PULL_MESSAGE, header), _ANSWER_SECONDS
        )
        status = _STATUSES.get(ResponseCode(answer.code)) if answer.code in _CODES else None
        if status is None:
            raise BrokerError(address, answer.code, answer.remark or "")
        found: PullAnswer = answer.header(PullAnswer)
        self._suggested[queue] = found.suggest_which_broker_id
        if status is not FetchStatus.FOUND:
            return Fetched(status, found.next_begin_offset)
        messages = messages_in(answer.body, address, request.queue_offset)
        return Fetched(
            status, found.next_begin_offset, messages, [each.queue_offset for each in messages]
        )


_CODES: Final = frozenset(_STATUSES)


def messages_in(body: bytes, address: str, queue_offset: int = 0) -> list[MessageView]:
    """Return the stored messages that stand back to back in the body of an answer.

    Those of an inner batch, which is one record, are unwrapped. A broker answers with whole
    batches, also if the fetch begins inside of one.

    Args:
        body: the bytes.
        address: the sender, for the error.
        queue_offset: where the fetch begins: messages of a batch before it are left out.

    Raises:
        CorruptFileError: a message is cut, or its body does not match its checksum.
    """
    found: list[MessageView] = []
    position, end = 0, len(body)
    while position < end:
        size = int.from_bytes(body[position : position + _SIZE_BYTES], "big", signed=True)
        if not _SIZE_BYTES <= size <= end - position:
            reason = f"a message of {size} bytes, {end - position} are left"
            raise CorruptFileError(f"answer of {address}", position, reason)
        view = MessageView(body[position : position + size])
        if not view.body_matches():
            reason = f"message {view.msg_id}: its body does not match its checksum"
            raise CorruptFileError(f"answer of {address}", position, reason)
        parts = unwrapped(view)
        if len(parts) > 1:
            found += [each for each in parts if each.queue_offset >= queue_offset]
        else:
            found += parts
        position += size
    return found
