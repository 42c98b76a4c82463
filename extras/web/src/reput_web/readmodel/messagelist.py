"""`message_page`: the messages that a page lists, by what was asked for."""

from __future__ import annotations

import heapq
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput.errors import CorruptFileError, NoReaderError, PluginError, UnpackError
from reput.record.layout import COMPRESSED, LIGHT_QUEUE_PREFIX
from reput_web.errors import BadRequestError, NotThereError
from reput_web.readmodel import logpages, queuepages
from reput_web.readmodel.compacted import compacted_topics
from reput_web.readmodel.rows import MessagePage, Row, row_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput import DispatchBatch, MessageView, Store
    from reput.plugin import MessageFilter
    from reput_tools.cli.messages import Wanted
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget

_LATEST: Final = (1 << 63) - 1
_KEY_TOPICS_MAX: Final = 2_000
_UNPACKED_MAX: Final = 16 << 20
_HIDDEN: Final = (0x4, 0xC)  # prepared and rollback records are in no queue


@attrs.frozen(kw_only=True)
class MessageRequest:
    """The conditions of a page; `Parameters` has bounded all texts."""

    topic: str | None = None
    queue_id: int | None = None
    is_oldest_first: bool = False
    since: int | None = None
    until: int | None = None
    queue_offset: int | None = None
    at: int | None = None
    key: str | None = None
    tag: str | None = None
    where: str | None = None
    text: str | None = None
    is_regex: bool = False
    ignores_case: bool = False
    count: int = 50

    @property
    def is_search(self) -> bool:
        """Whether messages have to be looked into."""
        return any(each is not None for each in (self.tag, self.where, self.text))


def message_page(opened: OpenedStore, request: MessageRequest, budget: WorkBudget) -> MessagePage:
    """Return one page of messages.

    Raises:
        BadRequestError: conditions that contradict each other, or are not valid.
        NotThereError: no such topic or queue.
    """
    store = opened.store
    if request.key is not None and not request.is_search and request.queue_id is None:
        found = _by_key(opened, request)
        if found is not None:
            return found
    if request.key is not None or request.is_search or request.topic is None:
        return _from_log(store, request, budget)
    return _from_queues(opened, request, budget)


# --------------------------------------------------------------------------- queues


def _from_queues(opened: OpenedStore, request: MessageRequest, budget: WorkBudget) -> MessagePage:
    topic = request.topic or ""
    queues = opened.topic_queues(topic)
    if request.queue_id is not None:
        queues = [each for each in queues if each.queue_id == request.queue_id]
    if not queues:
        if not opened.queues():  # a store without queues: the log has the messages
            return _from_log(opened.store, request, budget)
        queue = "" if request.queue_id is None else f", queue {request.queue_id}"
        raise NotThereError(f"The store has no queue of topic {topic!r}{queue}.")
    if request.queue_offset is not None and request.queue_id is None:
        raise BadRequestError("A queue offset needs a queue: choose one.")
    wanted = queuepages.QueueRange(
        since=request.since,
        until=request.until,
        offset=request.queue_offset,
        at=request.at,
        is_compacted=topic in compacted_topics(opened),
    )
    pages = queuepages.oldest_first if request.is_oldest_first else queuepages.newest_first
    page = pages(opened.store, queues, wanted, request.count, budget)
    if wanted.is_compacted and len(queues) > 1:
        text = "The topic is compacted: each queue is in order, and queues are not merged by time."
        page = attrs.evolve(page, notes=(text,))
    return page


# --------------------------------------------------------------------------- keys


def _by_key(opened: OpenedStore, request: MessageRequest) -> MessagePage | None:
    """Return messages with a key by the index; None if the store has none that can be used."""
    store, key = opened.store, request.key or ""
    topics = [request.topic] if request.topic else _topics(opened)
    answers = []
    indexed_to = store.log.max_physical_offset
    try:
        for topic in topics[:_KEY_TOPICS_MAX]:
            answer = store.query(
                topic,
                key,
                request.since,
                request.until,
                request.count + 1,
                oldest_first=request.is_oldest_first,
                after=request.at,
            )
            answers.append(answer.messages)
            indexed_to = min(indexed_to, answer.indexed_to)
    except (NoReaderError, PluginError, CorruptFileError):
        return None
    sign = 1 if request.is_oldest_first else -1
    merged = heapq.merge(*answers, key=lambda message: sign * message.physical_offset)
    rows: list[Row] = list(map(row_of, islice(merged, request.count + 1)))
    if not request.is_oldest_first and request.at is None:
        rows = [*_not_indexed(store, request, indexed_to, rows), *rows]
    shown = rows[: request.count]
    more = len(rows) > request.count
    notes: tuple[str, ...] = ()
    if len(topics) > _KEY_TOPICS_MAX:
        notes = (f"Only the first {_KEY_TOPICS_MAX:,} topics were asked: choose a topic.",)
    return MessagePage(
        rows=tuple(shown), next_at=shown[-1].physical_offset if more else None, notes=notes
    )


def _topics(opened: OpenedStore) -> list[str]:
    return sorted({each.topic for each in opened.queues()})


def _not_indexed(
    store: Store, request: MessageRequest, indexed_to: int, known: list[Row]
) -> list[Row]:
    """Return messages with the key that the index does not hold yet, the newest first."""
    end = store.log.max_physical_offset
    if indexed_to >= end or end - indexed_to > 64 << 20:
        return []
    seen = {row.physical_offset for row in known}
    wanted = _wanted(store, request)
    found = [
        row_of(batch.message(row))
        for batch in store.scan(max(indexed_to, store.log.min_physical_offset))
        for row in np.flatnonzero(wanted.matching_rows(batch, wanted.seen_rows(batch))).tolist()
    ]
    return [row for row in reversed(found) if row.physical_offset not in seen]


# --------------------------------------------------------------------------- the log


def _from_log(store: Store, request: MessageRequest, budget: WorkBudget) -> MessagePage:
    if request.topic is not None and request.topic.startswith(LIGHT_QUEUE_PREFIX):
        raise BadRequestError("Light queues have no conditions: read the queue, or its topic.")
    log = store.log
    start, end = log.min_physical_offset, log.max_physical_offset
    if request.since is not None:
        start = logpages.log_place_of(store, request.since)
    if request.until is not None:
        end = logpages.log_place_of(store, request.until + 1)
    if request.at is not None:
        at = logpages.record_from(store, request.at)
        start, end = (max(start, at), end) if request.is_oldest_first else (start, min(end, at))
    is_plain = not (request.is_search or request.key)
    choose = _plain_choice(request) if is_plain else _search_choice(store, request)
    wanted = logpages.LogRange(
        start=start, end=max(end, start), choose=choose, with_damage=is_plain
    )
    pages = logpages.oldest_first if request.is_oldest_first else logpages.newest_first
    return pages(store, wanted, request.count, budget)


def _plain_choice(request: MessageRequest) -> logpages.Choose:
    def choose(batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        rows = logpages.every_row(batch)
        if request.topic is not None:
            known = request.topic in batch.topics
            rows &= batch.topic_code == (batch.topics.index(request.topic) if known else -1)
            rows &= ~np.isin(batch.transaction, _HIDDEN)
        if request.queue_id is not None:
            rows &= batch.queue_id == request.queue_id
        return rows

    return choose


def _search_choice(store: Store, request: MessageRequest) -> logpages.Choose:
    wanted = _wanted(store, request)

    def choose(batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        rows = wanted.seen_rows(batch)
        if request.queue_id is not None:
            rows &= batch.queue_id == request.queue_id
        return wanted.matching_rows(batch, rows)

    return choose


def _wanted(store: Store, request: MessageRequest) -> Wanted:
    """Return the conditions of ``reput grep``."""
    import click

    from reput_tools.cli.messages import BodySearch, Wanted, conditions_of

    try:
        conditions = conditions_of(store, request.topic, request.tag, None)
    except click.UsageError as error:
        raise BadRequestError(f"tag: {error.message}") from None
    if request.where is not None:
        conditions = conditions._replace(chosen=_condition(store, request.where, request.topic))
    needle = None
    if request.text is not None:
        if request.is_regex:
            _check_regex(request.text)
        needle = BodySearch.of(
            request.text, is_regex=request.is_regex, ignore_case=request.ignores_case
        )
    return Wanted(
        None if request.topic is None else frozenset([request.topic]),
        needle,
        request.key,
        conditions,
        request.since or 0,
        _LATEST if request.until is None else request.until,
        body_of,
        True,
    )


def _condition(store: Store, where: str, topic: str | None) -> MessageFilter:
    """Return a compiled condition; errors name the field of the page."""
    from reput.installhints import install_command

    try:
        return store.filter(where, topic=topic)
    except NoReaderError:
        text = f"where: the plugin filter is needed: {install_command('filter')}"
        raise BadRequestError(text) from None
    except ValueError as error:
        raise BadRequestError(f"where: {str(error).partition(chr(10))[0]}") from None


def _check_regex(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise BadRequestError(
            f"text: {text!r} is not a valid regular expression: {error}; without regex it is "
            "searched as text"
        ) from None


def new_messages(
    opened: OpenedStore, request: MessageRequest, budget: WorkBudget
) -> tuple[tuple[Row, ...], int]:
    """Return messages that came since the cursor of a request, the newest first, and a new cursor.

    Without a cursor, the last messages. The cursor is where the log ended, or where reading did.
    """
    store = opened.store
    end = store.log.max_physical_offset
    is_plain = not (request.is_search or request.key)
    choose = _plain_choice(request) if is_plain else _search_choice(store, request)
    start = store.log.min_physical_offset
    if request.at is None:
        wanted = logpages.LogRange(start=start, end=end, choose=choose, with_damage=False)
        return logpages.newest_first(store, wanted, request.count, budget).rows, end
    start = logpages.record_from(store, request.at)
    wanted = logpages.LogRange(start=start, end=end, choose=choose, with_damage=False)
    page = logpages.oldest_first(store, wanted, request.count, budget)
    return page.rows[::-1], end if page.next_at is None else page.next_at


def body_of(message: MessageView, limit: int = _UNPACKED_MAX) -> bytes:
    """Return the body as its producer wrote it; as stored where it cannot be unpacked.

    Args:
        message: the message.
        limit: a body that is larger than this when it is unpacked stays as stored.
    """
    if not message.sys_flag & COMPRESSED:
        return message.body
    from reput.record import unpack_body

    try:
        return unpack_body(message.body, message.sys_flag, limit)
    except UnpackError:
        return message.body


def document_of(page: MessagePage) -> dict[str, Any]:
    """Return a page as plain values; a row that is lost has ``"hole": true``."""
    rows = [{**attrs.asdict(row), "hole": not hasattr(row, "store_timestamp")} for row in page.rows]
    return {**attrs.asdict(page), "rows": rows}
