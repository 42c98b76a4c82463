"""Answers queries by key (12), and views of one message (33).

Source: RocketMQ ``QueryMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError, NoReaderError, OffsetOutOfRangeError
from reput_remoting import Command, Query, QueryAnswer, RequestCode, ResponseCode, View
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput import QueryResult
    from reput.record import MessageView
    from reput_server.broker.context import BrokerContext
    from reput_server.wire.answering import Handler
    from reput_server.wire.contract import Request

__all__ = ["QueryHandlers"]

_UNIQUE: Final = "_UNIQUE_KEY_QUERY"
_UNIQUE_COUNT: Final = 32
_COUNT_MAX: Final = 1_000
_BYTES_MAX: Final = 8 << 20


@attrs.frozen(eq=False)
class QueryHandlers:
    """The requests that find messages without a queue."""

    context: BrokerContext

    def by_code(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_MESSAGE: self.query,
            RequestCode.VIEW_MESSAGE_BY_ID: self.view,
        }

    async def query(self, request: Request) -> Command:
        """Answer with the newest messages that have a key, in the order of the log."""
        asked: Query = request.command.header(Query)
        is_unique = request.command.fields.get(_UNIQUE, "").lower() == "true"
        count = _UNIQUE_COUNT if is_unique else min(asked.max_num, _COUNT_MAX)
        if count <= 0:
            raise _nothing_found()
        try:
            found = await self.context.run(self._find, asked, count)
        except NoReaderError:
            raise self.context.missing("index", "queries by key") from None
        records: list[bytes] = []
        size = 0
        for message in found:
            size += len(message.record)
            if records and size > _BYTES_MAX:
                break
            records.append(message.record)
        if not records:
            raise _nothing_found()
        records.reverse()  # they were found from the newest one on
        header = QueryAnswer(
            index_last_update_timestamp=max(each.store_timestamp for each in found),
            index_last_update_phyoffset=found.indexed_to,
        )
        return request.command.answer(ResponseCode.SUCCESS, header, body=b"".join(records))

    def _find(self, asked: Query, count: int) -> QueryResult:
        begin, end = asked.begin_timestamp, asked.end_timestamp
        return self.context.store.query(asked.topic, asked.key, begin, end, count)

    async def view(self, request: Request) -> Command:
        """Answer with the message at a physical offset."""
        asked: View = request.command.header(View)
        message = await self.context.run(self._at, asked.offset)
        return request.command.answer(ResponseCode.SUCCESS, body=message.record)

    def _at(self, physical_offset: int) -> MessageView:
        try:
            return self.context.store.get(physical_offset)
        except (OffsetOutOfRangeError, CorruptFileError, ValueError):
            text = f"can not find message by the offset, {physical_offset}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, text) from None


def _nothing_found() -> Refusal:
    text = "can not find message, maybe time range not correct"
    header = QueryAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0)
    return Refusal(ResponseCode.QUERY_NOT_FOUND, text, header)
