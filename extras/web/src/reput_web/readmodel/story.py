"""`story_of`: all that the log knows about one message, as one line of time.

A message is stored again whenever it waits, fails or is copied: as a half message, on a delay
level, in a group's retry topic, as a dead letter. The copies keep the producer's id (``UNIQ_KEY``)
and name where they came from. This module follows these ids through the index, and the offsets of
groups say who has consumed which copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import CorruptFileError, NoReaderError, OffsetOutOfRangeError, PluginError
from reput.record.layout import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    TRANSACTION_COMMIT,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from reput_web.errors import NotThereError
from reput_web.readmodel.topics import kind_of

if TYPE_CHECKING:
    from reput import MessageView
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget

_COPIES_MAX: Final = 200
_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
_LEVEL_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_WHEEL_TOPIC: Final = "rmq_sys_wheel_timer"
_ORIGINS: Final = ("ORIGIN_MESSAGE_ID", "DLQ_ORIGIN_MESSAGE_ID")


@attrs.frozen(kw_only=True)
class Reader:
    """What a consumer group did with one copy."""

    group: str
    has_read: bool
    """Whether the offset that the group has committed is after the message."""


@attrs.frozen(kw_only=True)
class Chapter:
    """One copy of the message in the log."""

    kind: str
    """``stored``, ``half``, ``commit``, ``rollback``, ``delayed``, ``retry``, ``dead letter`` or
    ``copy``."""
    timestamp: int
    """Store time, ms."""
    physical_offset: int
    topic: str
    queue_id: int
    queue_offset: int
    real_topic: str | None
    """Where it is meant to go, of a copy that waits."""
    group: str | None
    """Of a retry or a dead letter."""
    times: int
    """How often consumers have sent it back."""
    due_timestamp: int | None
    """When it is delivered, ms, if it waits for a time."""
    delay_level: int | None
    readers: tuple[Reader, ...]
    is_asked: bool
    """Whether it is the copy that was asked for."""


@attrs.frozen(kw_only=True)
class Story:
    """The copies of one message, the oldest first."""

    unique_key: str | None
    physical_offset: int
    topic: str
    chapters: tuple[Chapter, ...]
    ending: str
    """What has become of it, as far as this is known."""
    notes: tuple[str, ...]


def story_of(opened: OpenedStore, physical_offset: int, budget: WorkBudget) -> Story:
    """Return the story of the message at a physical offset.

    Raises:
        NotThereError: no message begins there.
    """
    try:
        asked = opened.message(physical_offset)
    except (OffsetOutOfRangeError, CorruptFileError) as error:
        raise NotThereError(f"{error}.") from None
    copies = {asked.physical_offset: asked}
    notes = []
    _follow_origins(opened, copies)
    unique_key = asked.unique_key
    if unique_key is None:
        notes.append("The message has no id of its producer (UNIQ_KEY): only named copies appear.")
    elif not _find_copies(opened, unique_key, copies, budget):
        notes.append("The store has no index: copies may be missing.")
    _follow_origins(opened, copies)
    offsets = _offsets_of_groups(opened)
    chapters = tuple(
        _chapter(each, offsets, asked.physical_offset)
        for each in sorted(copies.values(), key=lambda each: each.physical_offset)
    )
    return Story(
        unique_key=unique_key,
        physical_offset=asked.physical_offset,
        topic=asked.topic,
        chapters=chapters,
        ending=_ending(chapters, is_followed=unique_key is not None),
        notes=tuple(notes),
    )


def _find_copies(
    opened: OpenedStore, unique_key: str, copies: dict[int, MessageView], budget: WorkBudget
) -> bool:
    """Add all messages with the producer's id; return whether there is an index to ask."""
    store = opened.store
    topics = {each.topic for each in opened.queues()} | {each.topic for each in copies.values()}
    # Likely ones first, as the time for this is bounded.
    ordered = sorted(topics, key=lambda topic: (kind_of(topic) == "normal", topic))
    for topic in ordered:
        try:
            found = store.query(topic, unique_key, limit=_COPIES_MAX)
        except (NoReaderError, PluginError, CorruptFileError):
            return False
        copies |= {each.physical_offset: each for each in found if each.unique_key == unique_key}
        if budget.is_spent or len(copies) > _COPIES_MAX:
            break
    return True


def _follow_origins(opened: OpenedStore, copies: dict[int, MessageView]) -> None:
    """Add the messages that copies name: by message id, or by the offset of a half message."""
    waiting = list(copies.values())
    while waiting and len(copies) <= _COPIES_MAX:
        view = waiting.pop()
        for place in _named_places(view):
            if place in copies:
                continue
            try:
                found = opened.store.get(place)
            except (OffsetOutOfRangeError, CorruptFileError, ValueError):
                continue
            same = found.unique_key == view.unique_key
            if same or found.unique_key is None:
                copies[found.physical_offset] = found
                waiting.append(found)


def _named_places(view: MessageView) -> Iterable[int]:
    from reput.record import parse_message_id

    for name in _ORIGINS:
        text = view.properties.get(name)
        if text is not None and len(text) in (32, 56):
            try:
                yield parse_message_id(text)[1]
            except ValueError:
                continue
    if view.transaction in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
        yield view.prepared_transaction_offset


def _offsets_of_groups(opened: OpenedStore) -> dict[str, dict[tuple[str, int], int]]:
    plugin = opened.groups_plugin()
    return {} if plugin is None else plugin.offsets()


def _chapter(
    view: MessageView, offsets: dict[str, dict[tuple[str, int], int]], asked: int
) -> Chapter:
    queue = view.topic, view.queue_id
    properties = view.properties
    readers = tuple(
        Reader(group=group, has_read=places[queue] > view.queue_offset)
        for group, places in sorted(offsets.items())
        if queue in places
    )
    kind = _kind(view)
    return Chapter(
        kind=kind,
        timestamp=view.store_timestamp,
        physical_offset=view.physical_offset,
        topic=view.topic,
        queue_id=view.queue_id,
        queue_offset=view.queue_offset,
        real_topic=properties.get("REAL_TOPIC") if kind in ("half", "delayed") else None,
        group=_group(view),
        times=view.reconsume_times,
        due_timestamp=_due(view) if kind == "delayed" else None,
        delay_level=_number(properties.get("DELAY")) if kind == "delayed" else None,
        readers=readers if kind not in ("half", "delayed") else (),
        is_asked=view.physical_offset == asked,
    )


def _kind(view: MessageView) -> str:
    topic = view.topic
    if topic == _HALF_TOPIC or view.transaction == TRANSACTION_PREPARED:
        return "half"
    if topic in (_LEVEL_TOPIC, _WHEEL_TOPIC):
        return "delayed"
    if view.transaction == TRANSACTION_ROLLBACK:
        return "rollback"
    if topic.startswith(DEAD_LETTER_PREFIX):
        return "dead letter"
    if topic.startswith(RETRY_PREFIX):
        return "retry"
    return "commit" if view.transaction == TRANSACTION_COMMIT else "stored"


def _group(view: MessageView) -> str | None:
    target = view.properties.get("REAL_TOPIC", "")
    for topic in (view.topic, target):
        for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
            if topic.startswith(prefix):
                return topic.removeprefix(prefix)
    return None


def _due(view: MessageView) -> int | None:
    for name in ("TIMER_OUT_MS", "TIMER_DELIVER_MS", "__STARTDELIVERTIME"):
        found = _number(view.properties.get(name))
        if found is not None:
            return found
    return None


def _number(text: str | None) -> int | None:
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) < 19
    return int(text) if is_number and text is not None else None


def _ending(chapters: tuple[Chapter, ...], *, is_followed: bool) -> str:
    """Return what the last copy says.

    Args:
        chapters: the copies.
        is_followed: whether later copies would have been found.
    """
    last = chapters[-1]
    if last.kind == "dead letter":
        return f"The group {last.group} has given it up after {last.times} retries."
    if last.kind == "half":
        return "The transaction is open, or was rolled back."
    if last.kind == "rollback":
        return "The transaction was rolled back."
    if last.kind == "delayed":
        return "It waits for its time." if is_followed else "It waits, or was delivered."
    readers = {each.group: each.has_read for chapter in chapters for each in chapter.readers}
    if not readers:
        return "No consumer group has offsets in its queue."
    behind = sorted(group for group, has_read in readers.items() if not has_read)
    if behind:
        return f"Not consumed yet by {', '.join(behind)}."
    return f"Consumed by {', '.join(sorted(readers))}."
