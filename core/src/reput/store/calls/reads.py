"""`Reads`: asks plugins to answer a read, one after the other, and checks the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import attrs

from reput.errors import PluginError
from reput.plugin.answers import QueryResult, QueueInfo, ReadResult
from reput.plugin.filters import MessageFilter
from reput.record.messages.plain import shown
from reput.status import ReadStatus

if TYPE_CHECKING:
    from reput.plugin.host.hooktable import Hook
    from reput.store.calls.active import ActivePlugins

__all__ = ["Reads"]

_Answer = TypeVar("_Answer")
_COMPILER: Final = "filter"  # what an error text says to install for filters
_FINDER: Final = "index"  # likewise, for queries


class Reads:
    """The reads of one store, with arguments that are already checked. Thread-safe."""

    def __init__(self, active: ActivePlugins) -> None:
        self._active = active
        self._readers: list[tuple[str, Hook, bool]] = []
        """Looked up once, as queues are read often; replaced as a whole."""
        self.read_count = 0
        """Reads of queues that were answered. Not locked: of two at once one may be missing."""
        self.message_count = 0
        """Messages that were returned by these."""
        self.use()

    def use(self) -> None:
        """Use the plugins that are active now from now on."""
        hooks = self._active.set.hooks
        self._readers = [
            (name, read, "filter" in hooks[name].takes["read"])
            for name, read in self._active.usable("read")
        ]

    # ------------------------------------------------------------------ queues

    def read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int,
        max_bytes: int,
        chosen: MessageFilter | None = None,
        *,
        but: str | None = None,
    ) -> ReadResult:
        """See `reput.Store.read`; the plugin named ``but`` is not asked."""
        for name, read, knows_filters in self._readers:
            if name == but:
                continue
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
                if chosen is not None and not knows_filters:
                    result = _selected(result, chosen)
                self.read_count += 1
                self.message_count += len(result.messages)
                return result
        raise self._active.no_answer("read")

    def queues(self, *, but: str | None = None) -> list[QueueInfo]:
        """See `reput.Store.queues`; the plugin named ``but`` is not asked."""
        hooks = [each for each in self._active.usable("queues") if each[0] != but]
        if not hooks:
            raise self._active.no_answer("queues")
        found: dict[tuple[str, int], QueueInfo] = {}
        for name, hook in hooks:
            for each in hook() or ():
                info = _checked(name, "reput_queues", each, QueueInfo)
                key = info.topic, info.queue_id
                found[key] = _joined(found[key], info) if key in found else info
        return [found[key] for key in sorted(found)]

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Literal["lower", "upper"]
    ) -> int:
        """See `reput.Store.offset_by_time`."""
        for name, find in self._active.usable("offset_by_time"):
            answer = find(topic=topic, queue_id=queue_id, timestamp=timestamp, boundary=boundary)
            if answer is not None:
                return _checked(name, "reput_offset_by_time", answer, int)
        raise self._active.no_answer("offset_by_time")

    # ------------------------------------------------------------------ filters and queries

    def chosen(self, given: Any, topic: str) -> MessageFilter:
        """Return the filter that a caller gave, compiled if it is a text.

        Raises:
            TypeError: ``given`` is neither a filter nor a text.
        """
        if isinstance(given, str):
            return self.filter(given, None, topic)
        if isinstance(given, MessageFilter):
            return given
        text = f"a condition, or a MessageFilter expected, found {shown(given)}"
        raise TypeError(f"filter: {text}")

    def filter(self, expression: str, kind: str | None, topic: str | None) -> MessageFilter:
        """See `reput.Store.filter`."""
        for name, compile_filter in self._active.usable("filter"):
            answer = compile_filter(expression=expression, kind=kind, topic=topic)
            if isinstance(answer, MessageFilter):
                return answer
            if answer is not None:
                raise PluginError(name, f"reput_filter returned {answer!r}, no filter")
        raise self._active.no_answer("filter", _COMPILER)

    def query(self, **asked: Any) -> QueryResult:
        """See `reput.Store.query`; ``asked`` are the arguments of the hook ``reput_query``."""
        for name, find in self._active.usable("query"):
            answer = find(**asked)
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
