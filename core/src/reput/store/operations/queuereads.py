"""`QueueReads`: asks plugins to answer a read, one after the other, and checks the answer."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

import attrs

from reput.errors import PluginError
from reput.plugin.messagefilter import MessageFilter
from reput.plugin.readresults import QueryResult, QueueInfo, ReadColumns, ReadResult
from reput.record.messages.message import shown
from reput.status import ReadStatus
from reput.store.operations.arguments import flag_argument, text_argument, whole_number

if TYPE_CHECKING:
    from reput.record.messageview import MessageView
    from reput.store.operations.activeplugins import ActivePlugins

_Answer = TypeVar("_Answer")
_COMPILER: Final = "filter"  # what an error text says to install for filters
_FINDER: Final = "index"  # likewise, for queries
_LATEST: Final = (1 << 63) - 1
_physical_offset = operator.attrgetter("physical_offset")


class QueueReads:
    """The reads of `reput.Store`, and of the store as one of its plugins sees it. Thread-safe."""

    _asker: str = ""
    """The plugin that reads, which is not asked for queues; empty for a user of the store."""

    def __init__(self, active: ActivePlugins, check_open: Callable[[], None]) -> None:
        self._active = active
        self._check_open = check_open

    @overload
    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,
        *,
        as_columns: Literal[False] = False,
    ) -> ReadResult: ...

    @overload
    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,
        *,
        as_columns: Literal[True],
    ) -> ReadColumns: ...

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,  # noqa: A002 - the word for it
        *,
        as_columns: bool = False,
    ) -> ReadResult | ReadColumns:
        """Read messages of one queue from ``queue_offset`` on.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            queue_offset: where to begin; the next read begins at the result's
                ``next_queue_offset``.
            max_count: most messages to return.
            max_bytes: stop before this many bytes of records, but return at least one message.
            filter: return only messages that this condition or compiled filter (`filter`) selects.
                One read examines a limited number of messages; if none of these is selected, the
                status is ``NO_MATCHED_MESSAGE`` and the queue may hold more.
            as_columns: return the messages as columns of one batch instead of one object each. The
                answer is the same otherwise: the same messages, status and holes.

        Returns:
            A `ReadResult`, which iterates over messages; with ``as_columns`` a `ReadColumns`.

        Raises:
            NoReaderError: no active plugin can read queues, or none compiles filters.
            MessageIllegalError: ``topic`` cannot be a topic's name.
            ValueError: ``filter`` is not a condition.
            TypeError: an argument of a wrong type.
        """
        self._check_open()
        if type(topic) is not str or type(queue_id) is not int or type(queue_offset) is not int:
            topic = text_argument("topic", topic)
            queue_id = whole_number("queue_id", queue_id)
            queue_offset = whole_number("queue_offset", queue_offset)
        if type(max_count) is not int or type(max_bytes) is not int:
            max_count = whole_number("max_count", max_count)
            max_bytes = whole_number("max_bytes", max_bytes)
        chosen = None if filter is None else self._chosen(filter, topic)
        active = self._active
        flag: Any = as_columns
        by_columns = flag is True or (flag is not False and flag_argument("as_columns", flag))
        for name, read, knows_filters in active.readers:
            if name == self._asker:
                continue
            answer: ReadResult | ReadColumns | None = read(
                topic=topic,
                queue_id=queue_id,
                queue_offset=queue_offset,
                max_count=max_count if max_count > 1 else 1,
                max_bytes=max_bytes,
                filter=chosen,
                as_columns=by_columns and (chosen is None or knows_filters),
            )
            if answer is None:
                continue
            if type(answer) is not (ReadColumns if by_columns else ReadResult) or (
                chosen is not None and not knows_filters
            ):
                found = _checked(name, "reput_read", answer, ReadResult)
                if chosen is not None and not knows_filters:
                    found = _selected(found, chosen)
                answer = ReadColumns.of(found) if by_columns else found
            active.read_count += 1
            active.message_count += len(answer)
            return answer
        raise active.no_answer("read")

    def messages(
        self,
        topic: str,
        filter: str | MessageFilter | None = None,  # noqa: A002 - as in `read`
    ) -> Iterator[MessageView]:
        """Iterate over the messages that a topic has now, of all its queues, in stored order.

        Args:
            topic: the topic's name.
            filter: yield only messages that this condition or compiled filter selects.

        Raises:
            As for `read` and `queues`.
        """
        chosen = None if filter is None else self._chosen(filter, text_argument("topic", topic))
        queues = [queue for queue in self.queues() if queue.topic == topic]
        return heapq.merge(
            *(self._messages_of(queue, chosen) for queue in queues), key=_physical_offset
        )

    def _messages_of(self, queue: QueueInfo, chosen: MessageFilter | None) -> Iterator[MessageView]:
        queue_offset, end = queue.min_queue_offset, queue.max_queue_offset
        while queue_offset < end:
            result = self.read(queue.topic, queue.queue_id, queue_offset, filter=chosen)
            for message, place in zip(result.messages, result.queue_offsets, strict=True):
                if place < end:
                    yield message
            if result.next_queue_offset <= queue_offset:
                return
            queue_offset = result.next_queue_offset

    def filter(
        self, expression: str, kind: str | None = None, *, topic: str | None = None
    ) -> MessageFilter:
        """Compile a filter for `read`.

        Args:
            expression: a condition on properties, or tags: ``"paid || shipped"``.
            kind: the expression's language, such as ``"TAG"``, one that a plugin knows; the
                plugin's default when left out.
            topic: the topic that is going to be read; a filter registered for that topic is faster.

        Raises:
            NoReaderError: no active plugin compiles filters.
            ValueError: ``expression`` is not a condition, and the text says where it goes wrong; or
                no active plugin compiles filters of that kind.
        """
        self._check_open()
        expression = text_argument("expression", expression)
        kind = None if kind is None else text_argument("kind", kind)
        topic = None if topic is None else text_argument("topic", topic)
        compilers = self._active.usable("filter")
        for name, compile_filter in compilers:
            answer = compile_filter(expression=expression, kind=kind, topic=topic)
            if isinstance(answer, MessageFilter):
                return answer
            if answer is not None:
                raise PluginError(name, f"reput_filter returned {answer!r}, not a filter")
        if compilers:
            names = ", ".join(name for name, _ in compilers)
            raise ValueError(f"kind: {kind!r} is not a language of filters that {names} knows")
        raise self._active.no_answer("filter", _COMPILER)

    def _chosen(self, given: Any, topic: str) -> MessageFilter:
        """Return the filter that a caller gave, compiled if it is a text."""
        if isinstance(given, str):
            return self.filter(given, topic=topic)
        if isinstance(given, MessageFilter):
            return given
        text = f"a condition, or a MessageFilter expected, found {shown(given)}"
        raise TypeError(f"filter: {text}")

    def offset_by_time(
        self,
        topic: str,
        queue_id: int,
        timestamp: int,
        boundary: Literal["lower", "upper"] = "lower",
    ) -> int:
        """Return the queue offset of the first message from a time on, or of the last until then.

        Also if the clock was set back, but for messages that a broker has stored and listed itself,
        whose times are taken as ascending. Without such a message, it is the queue's end, or its
        beginning.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            timestamp: store time, ms.
            boundary: ``"lower"``: the first message stored then or later; ``"upper"``: the last
                message stored then or earlier.

        Raises:
            NoReaderError: no active plugin can read queues.
        """
        self._check_open()
        if boundary not in ("lower", "upper"):
            raise ValueError(f'boundary must be "lower" or "upper", not {boundary!r}')
        topic = text_argument("topic", topic)
        queue_id = whole_number("queue_id", queue_id)
        timestamp = whole_number("timestamp", timestamp)
        for name, find in self._active.usable("offset_by_time"):
            answer = find(topic=topic, queue_id=queue_id, timestamp=timestamp, boundary=boundary)
            if answer is not None:
                return _checked(name, "reput_offset_by_time", answer, int)
        raise self._active.no_answer("offset_by_time")

    def queues(self) -> list[QueueInfo]:
        """Return all queues, sorted by topic and queue id.

        Raises:
            NoReaderError: no active plugin can read queues.
        """
        self._check_open()
        hooks = [each for each in self._active.usable("queues") if each[0] != self._asker]
        if not hooks:
            raise self._active.no_answer("queues")
        found: dict[tuple[str, int], QueueInfo] = {}
        for name, hook in hooks:
            for each in hook() or ():
                info = _checked(name, "reput_queues", each, QueueInfo)
                key = info.topic, info.queue_id
                found[key] = _joined(found[key], info) if key in found else info
        return [found[key] for key in sorted(found)]

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
    ) -> QueryResult:
        """Find messages of a topic whose ``UNIQ_KEY``, or a word of whose ``KEYS``, is ``key``.

        Finds only what was dispatched; see ``indexed_to`` of the answer and `wait_dispatched`.

        Args:
            topic: the topic's name.
            key: the whole key.
            begin: store time of the oldest message wanted, ms.
            end: store time of the newest message wanted, ms.
            limit: most messages to return; all when left out.
            oldest_first: whether the oldest message comes first, and not the newest.
            after: ``after`` of the previous answer, to continue after its messages.

        Raises:
            NoReaderError: no active plugin keeps keys.
            ValueError: a limit below 1.
        """
        self._check_open()
        topic, key = text_argument("topic", topic), text_argument("key", key)
        begin = None if begin is None else whole_number("begin", begin)
        end = None if end is None else whole_number("end", end)
        limit = None if limit is None else whole_number("limit", limit)
        after = None if after is None else whole_number("after", after)
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be 1 or more, not {limit}")
        for name, find in self._active.usable("query"):
            answer = find(
                topic=topic,
                key=key,
                begin=0 if begin is None else begin,
                end=_LATEST if end is None else end,
                limit=limit,
                oldest_first=oldest_first,
                after=after,
            )
            if answer is not None:
                return _checked(name, "reput_query", answer, QueryResult)
        raise self._active.no_answer("query", _FINDER)


def _joined(one: QueueInfo, other: QueueInfo) -> QueueInfo:
    """Return one queue that two plugins keep, as far as either of them can read it."""
    if one.message_count == 0 or other.message_count == 0:
        return one if one.message_count else other
    return attrs.evolve(
        one,
        min_queue_offset=min(one.min_queue_offset, other.min_queue_offset),
        max_queue_offset=max(one.max_queue_offset, other.max_queue_offset),
        last_update_timestamp=max(
            filter(None, (one.last_update_timestamp, other.last_update_timestamp)), default=None
        ),
    )


def _selected(result: ReadResult, chosen: MessageFilter) -> ReadResult:
    """Return ``result`` with only the messages that the filter selects."""
    pairs = zip(result.messages, result.queue_offsets, strict=True)
    kept = [(message, place) for message, place in pairs if chosen.matches(message)]
    status = result.status
    if status is ReadStatus.FOUND and not kept:
        status = ReadStatus.NO_MATCHED_MESSAGE
    return attrs.evolve(
        result,
        status=status,
        messages=tuple(message for message, _ in kept),
        queue_offsets=tuple(place for _, place in kept),
    )


def _checked(plugin: str, hook: str, answer: Any, kind: type[_Answer]) -> _Answer:
    """Return ``answer`` of a plugin's hook if it is a ``kind``; raise otherwise."""
    if isinstance(answer, kind):
        return answer
    raise PluginError(plugin, f"{hook} returned {answer!r}, a {kind.__name__} is expected")
