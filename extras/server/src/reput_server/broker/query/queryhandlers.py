"""Answers queries by key (12), and views of one message (33).

Source: RocketMQ ``QueryMessageProcessor``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import CorruptFileError, NoReaderError, OffsetOutOfRangeError
from reput_client.remoting import Command, Query, QueryAnswer, RequestCode, ResponseCode, View
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput.plugin import QueryResult
    from reput.record import MessageView
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.wire.interfaces import Request
    from reput_server.wire.requestdispatcher import Handler

_UNIQUE: Final = "_UNIQUE_KEY_QUERY"
_UNIQUE_COUNT: Final = 32
_COUNT_MAX: Final = 1_000
_BYTES_MAX: Final = 8 << 20
_PAGE: Final = 16
_TAGS: Final = "T"
_LAST_KEY_PARTS: Final = 6


@attrs.frozen(eq=False)
class _Found:
    """What a search by key has found."""

    records: Sequence[bytes]
    """In the order of the log."""
    newest: int
    """Store time of the newest, ms."""
    indexed_to: int
    """Physical offset below which every message was searched."""


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
        """Answer with the newest messages that have a key or tags, in the order of the log.

        With ``lastKey`` with the messages after that one, as RocketMQ's index in RocksDB answers;
        its index files ignore this field.
        """
        asked: Query = request.command.header(Query)
        is_unique = request.command.fields.get(_UNIQUE, "").lower() == "true"
        count = _UNIQUE_COUNT if is_unique else min(asked.max_num, _COUNT_MAX)
        if count <= 0:
            raise _nothing_found()
        try:
            found = await self.context.run(self._find, asked, count)
        except NoReaderError:
            raise self.context.missing("index", "queries by key") from None
        if not found.records:
            raise _nothing_found()
        header = QueryAnswer(
            index_last_update_timestamp=found.newest,
            index_last_update_phyoffset=found.indexed_to,
        )
        body = b"".join(found.records)
        return request.command.answer(ResponseCode.SUCCESS, header, body=body)

    def _find(self, asked: Query, count: int) -> _Found:
        """Search, a few messages at a time: many large ones would take the server's memory."""
        find = self._finder(asked)
        begin, end = asked.begin_timestamp, asked.end_timestamp
        records: list[bytes] = []
        size = newest = indexed_to = 0
        after = _offset_of(asked.last_key) if asked.last_key else None
        is_forward = after is not None
        while len(records) < count:
            limit = min(count - len(records), _PAGE)
            found = find(
                asked.topic, asked.key, begin, end, limit, oldest_first=is_forward, after=after
            )
            indexed_to = indexed_to or found.indexed_to
            after = found.after
            for message in found:
                size += len(message.record)
                if records and size > _BYTES_MAX:
                    after = None
                    break
                records.append(message.record)
                newest = max(newest, message.store_timestamp)
            if after is None:
                break
        return _Found(records if is_forward else records[::-1], newest, indexed_to)

    def _finder(self, asked: Query) -> Callable[..., QueryResult]:
        """Return what searches for messages by that key."""
        if asked.index_type != _TAGS:
            return self.context.store.query
        plugin: Any = self.context.store.plugin_objects.get("index")
        if plugin is None:
            raise self.context.missing("index", "queries by tag")
        find: Callable[..., QueryResult] = plugin.query_by_tag
        return find

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


def _offset_of(last_key: str) -> int:
    """Return the physical offset at the end of ``lastKey``."""
    parts = last_key.split("@")
    try:
        if len(parts) < _LAST_KEY_PARTS:
            raise ValueError(last_key)
        return int(parts[-1])
    except ValueError:
        raise _nothing_found() from None


def _nothing_found() -> Refusal:
    text = "can not find message, maybe time range not correct"
    header = QueryAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0)
    return Refusal(ResponseCode.QUERY_NOT_FOUND, text, header)
