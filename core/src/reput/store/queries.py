"""`StoreQueries`: the part of a store that finds messages by what they say."""

from __future__ import annotations

from typing import Final

from reput.errors import NoReaderError, PluginError
from reput.plugin.answers import QueryResult
from reput.record.plain import text_argument, whole_number
from reput.store.plugins import StorePlugins

__all__ = ["StoreQueries"]

_LATEST: Final = (1 << 63) - 1
_FINDER: Final = "reput-index"  # what to install where nothing can find; for an error text


class StoreQueries(StorePlugins):
    """What `reput.Store` offers to search messages."""

    def query(
        self,
        topic: str,
        key: str,
        begin: int | None = None,
        end: int | None = None,
        limit: int | None = None,
        *,
        oldest_first: bool = False,
        after: int | None = None,
        compat: bool = False,
    ) -> QueryResult:
        """Messages of a topic by key: those whose ``UNIQ_KEY``, or a word of ``KEYS``, it is.

        Only what was dispatched is found, see ``indexed_to`` of the answer and `wait_dispatched`.

        Args:
            topic: the topic's name.
            key: the whole key.
            begin: store time of the oldest message wanted, ms.
            end: store time of the newest message wanted, ms.
            limit: most messages to return; all of them when left out.
            oldest_first: in the order of storing; the newest first when left out.
            after: ``after`` of the answer before, to go on behind it.
            compat: answer as RocketMQ does: at most 64 messages, selected by a hash of the key,
                within seconds, in the order that it returns.

        Raises:
            NoReaderError: no active plugin keeps keys.
            ValueError: a limit below 1, or ``compat`` together with an order or a place to go on.
        """
        self._check_open()
        topic, key = text_argument("topic", topic), text_argument("key", key)
        begin = None if begin is None else whole_number("begin", begin)
        end = None if end is None else whole_number("end", end)
        limit = None if limit is None else whole_number("limit", limit)
        after = None if after is None else whole_number("after", after)
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit}")
        if compat and (oldest_first or after is not None):
            raise ValueError("compat goes with neither oldest_first nor after")
        for name, find in self._usable(lambda hooks: hooks.query):
            answer = find(
                topic=topic,
                key=key,
                begin=0 if begin is None else begin,
                end=_LATEST if end is None else end,
                limit=limit,
                oldest_first=oldest_first,
                after=after,
                compat=compat,
            )
            if isinstance(answer, QueryResult):
                return answer
            if answer is not None:
                raise PluginError(
                    name, f"reput_query returned {answer!r}, a QueryResult is expected"
                )
        error = self._no_reader(lambda hooks: hooks.query, "query")
        if isinstance(error, NoReaderError):
            raise NoReaderError(error.operation, _FINDER)
        raise error
