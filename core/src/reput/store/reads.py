"""`StoreReads`: the part of a store that reads queues, all of a queue or what a filter selects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import attrs

from reput.errors import NoReaderError, PluginError
from reput.plugin.answers import QueueInfo, ReadResult
from reput.plugin.filters import MessageFilter
from reput.record.plain import shown, text_argument, whole_number
from reput.status import ReadStatus
from reput.store.queries import StoreQueries

if TYPE_CHECKING:
    from reput.plugin.host.hooktable import ReadHook

__all__ = ["StoreReads"]

_Answer = TypeVar("_Answer")
_COMPILER: Final = "reput-filter"  # what to install where nothing compiles; for an error text


class StoreReads(StoreQueries):
    """What `reput.Store` offers to read queues."""

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 4 << 20,
        filter: str | MessageFilter | None = None,  # noqa: A002 - the word for it
    ) -> ReadResult:
        """Read messages of one queue from ``queue_offset`` on.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            queue_offset: where to begin; ``next_queue_offset`` of the result is where to go on.
            max_count: most messages to return.
            max_bytes: stop before this many bytes of records; one message is returned even so.
            filter: return only messages that it selects: a condition in SQL92, or a compiled filter
                (`filter`). A read looks at so many messages and no more; where none of them was
                selected, the status is ``NO_MATCHED_MESSAGE`` and there is more to be read.

        Raises:
            NoReaderError: no active plugin can read queues, or none compiles filters.
            MessageIllegalError: ``topic`` cannot be a topic's name.
            ValueError: ``filter`` is no condition.
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
        return self._read(
            self._readers, topic, queue_id, queue_offset, max_count, max_bytes, chosen
        )

    def _chosen(self, given: Any, topic: str) -> MessageFilter:
        if isinstance(given, str):
            return self.filter(given, topic=topic)
        if isinstance(given, MessageFilter):
            return given
        text = f"a condition in SQL92, or a MessageFilter expected, found {shown(given)}"
        raise TypeError(f"filter: {text}")

    def read_for(
        self,
        plugin: str,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
    ) -> ReadResult:
        """Read for a plugin, which itself is not asked; see `reput.plugin.StoreAccess`."""
        self._check_open()
        readers = [(name, read) for name, read in self._readers if name != plugin]
        return self._read(readers, topic, queue_id, queue_offset, max_count, max_bytes, None)

    def _read(
        self,
        readers: list[tuple[str, ReadHook]],
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        chosen: MessageFilter | None,
    ) -> ReadResult:
        for name, read in readers:
            answer = read(
                topic=topic,
                queue_id=queue_id,
                queue_offset=queue_offset,
                max_count=max(max_count, 1),
                max_bytes=max_bytes,
                filter=chosen,
            )
            if answer is not None:
                result = _checked(name, "reput_read", answer, ReadResult)
                if chosen is None or "filter" in self._plugins.hooks[name].takes["read"]:
                    return result
                return _selected(result, chosen)
        raise self._no_reader(lambda hooks: hooks.read, "read")

    def filter(
        self, expression: str, kind: str = "SQL92", *, topic: str | None = None
    ) -> MessageFilter:
        """Compile a filter, to read with.

        Args:
            expression: a condition on properties, or tags: ``"paid || shipped"``.
            kind: ``"SQL92"``, ``"TAG"``, or what else a plugin offers.
            topic: the topic that is going to be read; a filter that is registered for it finds its
                messages sooner.

        Raises:
            NoReaderError: no active plugin compiles filters of that kind.
            ValueError: no such condition; the text says where it goes wrong.
        """
        self._check_open()
        expression, kind = text_argument("expression", expression), text_argument("kind", kind)
        if topic is not None:
            topic = text_argument("topic", topic)
        for name, compile_filter in self._usable(lambda hooks: hooks.filter):
            answer = compile_filter(expression=expression, kind=kind, topic=topic)
            if isinstance(answer, MessageFilter):
                return answer
            if answer is not None:
                raise PluginError(name, f"reput_filter returned {answer!r}, no filter")
        error = self._no_reader(lambda hooks: hooks.filter, "filter")
        raise NoReaderError("filter", _COMPILER) if isinstance(error, NoReaderError) else error

    def offset_by_time(
        self,
        topic: str,
        queue_id: int,
        timestamp: int,
        boundary: Literal["lower", "upper"] = "lower",
    ) -> int:
        """Queue offset by store time.

        Args:
            topic: the topic's name.
            queue_id: the queue.
            timestamp: ms.
            boundary: ``"lower"``: the first message at that time or later; ``"upper"``: the last
                at that time or earlier.

        Raises:
            NoReaderError: no active plugin can read queues.
        """
        self._check_open()
        if boundary not in ("lower", "upper"):
            raise ValueError(f'boundary must be "lower" or "upper", not {boundary!r}')
        topic = text_argument("topic", topic)
        queue_id = whole_number("queue_id", queue_id)
        timestamp = whole_number("timestamp", timestamp)
        for name, find in self._usable(lambda hooks: hooks.offset_by_time):
            answer = find(topic=topic, queue_id=queue_id, timestamp=timestamp, boundary=boundary)
            if answer is not None:
                return _checked(name, "reput_offset_by_time", answer, int)
        raise self._no_reader(lambda hooks: hooks.offset_by_time, "offset_by_time")

    def queues(self) -> list[QueueInfo]:
        """Every queue there is, by topic and queue id.

        Raises:
            NoReaderError: no active plugin can read queues.
        """
        return self.queues_for(None)

    def queues_for(self, plugin: str | None) -> list[QueueInfo]:
        """Queues for a plugin, which itself is not asked."""
        self._check_open()
        kept = self._usable(lambda hooks: hooks.queues)
        kept = [(name, hook) for name, hook in kept if name != plugin]
        if not kept:
            raise self._no_reader(lambda hooks: hooks.queues, "queues")
        found: dict[tuple[str, int], QueueInfo] = {}
        for name, hook in kept:
            for each in hook() or ():
                info = _checked(name, "reput_queues", each, QueueInfo)
                key = info.topic, info.queue_id
                found[key] = _joined(found[key], info) if key in found else info
        return [found[key] for key in sorted(found)]


def _joined(one: QueueInfo, other: QueueInfo) -> QueueInfo:
    """One queue that two plugins keep, as far as either of them can read it."""
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
    """What the filter selects of an answer, whose reader knows no filters."""
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
    """``answer``, which a plugin gave, when it is what the hook promises."""
    if isinstance(answer, kind):
        return answer
    raise PluginError(plugin, f"{hook} returned {answer!r}, a {kind.__name__} is expected")
