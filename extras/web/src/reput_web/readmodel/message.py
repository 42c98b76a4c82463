"""One message: its body in a form for people, its neighbours, and what leads to it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from reput.errors import CorruptFileError, NoReaderError, OffsetOutOfRangeError, PluginError
from reput_web.errors import NotThereError
from reput_web.readmodel import leads as leading
from reput_web.readmodel.compacted import compacted_topics
from reput_web.readmodel.leads import Lead
from reput_web.readmodel.messagelist import body_of
from reput_web.readmodel.recordanatomy import PROPERTY_MEANINGS, RecordField, fields_of
from reput_web.readmodel.rows import TRANSACTIONS

if TYPE_CHECKING:
    from reput import MessageView, Store
    from reput_web.readmodel.openedstore import OpenedStore

__all__ = [
    "BODY_SHOWN_MAX",
    "BodyShown",
    "Lead",
    "MessageDetail",
    "compacted_detail",
    "message_detail",
    "message_in_queue",
    "show_body",
]

BODY_SHOWN_MAX: Final = 64 << 10
_JSON_MAX: Final = 256 << 10
_DEPTH_MAX: Final = 100
_RECORD_SHOWN_MAX: Final = 2 << 10
_FORMS: Final = ("json", "text", "hex")


@attrs.frozen(kw_only=True)
class BodyShown:
    """A body, or its beginning, in one form."""

    form: str
    """``json``, ``text`` or ``hex``."""
    forms: tuple[str, ...]
    """The forms in which it can be shown."""
    size: int
    stored_size: int
    compression: str | None
    is_unpacked: bool
    is_cut: bool
    """Whether only the first bytes are shown."""
    text: str
    """Of the forms ``text`` and ``hex``."""
    tree: Any
    """Of the form ``json``: the parsed document."""


@attrs.frozen(kw_only=True)
class MessageDetail:
    """All that the page of a message shows."""

    view: Any
    physical_offset: int
    is_compacted: bool
    """Whether it comes from the files of a compacted topic; see `reput_web.readmodel.rows`."""
    msg_id: str
    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp: int
    born_timestamp: int
    tags: str | None
    keys: tuple[str, ...]
    unique_key: str | None
    reconsume_times: int
    transaction: str
    properties: tuple[tuple[str, str, str], ...]
    """Name, value and meaning."""
    fields: tuple[RecordField, ...]
    body: BodyShown
    before_in_queue: int | None
    """Physical offset; queue offset in a compacted topic."""
    after_in_queue: int | None
    before_in_log: int | None
    after_in_log: int | None
    leads: tuple[Lead, ...]


def compacted_detail(
    opened: OpenedStore, topic: str, queue_id: int, queue_offset: int, form: str | None
) -> MessageDetail:
    """Return one message of a compacted topic, from the files of its queue.

    Raises:
        NotThereError: the queue does not hold it.
    """
    view = message_in_queue(opened, topic, queue_id, queue_offset)
    return _detail(opened, view, tuple(fields_of(view)), form, is_compacted=True)


def message_in_queue(
    opened: OpenedStore, topic: str, queue_id: int, queue_offset: int
) -> MessageView:
    """Return the message of a compacted topic at a queue offset.

    Raises:
        NotThereError: the queue does not hold it.
    """
    if topic in compacted_topics(opened):
        found = opened.store.read(topic, queue_id, queue_offset, 1, 1)
        if queue_offset in found.queue_offsets:
            return found.messages[0]
    place = f"{topic}/{queue_id}@{queue_offset}"
    raise NotThereError(f"The files of compacted topics have no message {place}.")


def message_detail(opened: OpenedStore, physical_offset: int, form: str | None) -> MessageDetail:
    """Return one message.

    Raises:
        NotThereError: no message begins there; the text says what is known of the place.
    """
    store = opened.store
    try:
        view = opened.message(physical_offset)
        fields = tuple(fields_of(view))
    except (OffsetOutOfRangeError, CorruptFileError) as error:
        raise NotThereError(_lost_text(store, physical_offset) or f"{error}.") from None
    return _detail(opened, view, fields, form, is_compacted=False)


def _detail(
    opened: OpenedStore,
    view: MessageView,
    fields: tuple[RecordField, ...],
    form: str | None,
    *,
    is_compacted: bool,
) -> MessageDetail:
    store, offset = opened.store, view.physical_offset
    before: int | None
    after: int | None
    if is_compacted:
        before, after = _compacted_neighbours(store, view)
        leads = [Lead(kind="compacted", name=_place(view), leads_here=True)]
    elif view.topic in compacted_topics(opened):
        before = after = None
        kept = store.read(view.topic, view.queue_id, view.queue_offset, 1, 1)
        held = view.queue_offset in kept.queue_offsets
        leads = [Lead(kind="compacted", name=_place(view), leads_here=held)]
    else:
        before, here, after = _queue_neighbours(store, view)
        leads = [Lead(kind="queue", name=_place(view), leads_here=here == offset)]
    if not is_compacted:
        leads += [*leading.key_leads(store, view), *leading.timer_leads(opened, view)]
    return MessageDetail(
        view=view,
        physical_offset=offset,
        is_compacted=is_compacted,
        msg_id=view.msg_id,
        topic=view.topic,
        queue_id=view.queue_id,
        queue_offset=view.queue_offset,
        store_timestamp=view.store_timestamp,
        born_timestamp=view.born_timestamp,
        tags=view.tags,
        keys=view.keys,
        unique_key=view.unique_key,
        reconsume_times=view.reconsume_times,
        transaction=TRANSACTIONS[view.transaction],
        properties=tuple(
            (name, value, PROPERTY_MEANINGS.get(name, ""))
            for name, value in view.properties.items()
        ),
        fields=fields,
        body=show_body(view, form),
        before_in_queue=before,
        after_in_queue=after,
        before_in_log=None if is_compacted else _before_in_log(store, offset),
        after_in_log=None if is_compacted else _after_in_log(store, offset + view.size),
        leads=tuple(leads),
    )


def _place(view: MessageView) -> str:
    return f"{view.topic}/{view.queue_id}@{view.queue_offset}"


def _compacted_neighbours(store: Store, view: MessageView) -> tuple[int | None, int | None]:
    """Return the queue offsets before and after a message, across gaps."""
    topic, queue_id, here = view.topic, view.queue_id, view.queue_offset
    after = store.read(topic, queue_id, here + 1, 1, 1)
    before, low, high, middle = None, after.min_queue_offset, here, here - 1
    while low < high:
        found = store.read(topic, queue_id, middle, 1, 1).queue_offsets
        if found and found[0] < here:
            before, low = found[0], found[0] + 1
        else:
            high = middle
        middle = (low + high) // 2
    return before, (after.queue_offsets[0] if after.queue_offsets else None)


def show_body(view: MessageView, form: str | None) -> BodyShown:
    """Return the body in a form; by default in the first one that fits it."""
    stored = view.body
    body = body_of(view)
    part = body[:BODY_SHOWN_MAX]
    text = _text(part, is_cut=len(body) > len(part))
    tree, has_tree = _parsed(body)
    forms = [each for each in _FORMS if each != "json" or has_tree]
    if text is None:
        forms.remove("text")
    chosen = form if form in forms else forms[0]
    return BodyShown(
        form=chosen,
        forms=tuple(forms),
        size=len(body),
        stored_size=len(stored),
        compression=view.compression,
        is_unpacked=view.compression is not None and body is not stored,
        is_cut=chosen != "json" and len(body) > len(part),
        text=hex_lines(part) if chosen == "hex" else (text or ""),
        tree=tree if chosen == "json" else None,
    )


def hex_lines(data: bytes, first: int = 0) -> str:
    """Return lines of 16 bytes: position, hex, ASCII."""
    lines = []
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{first + at:08x}  {part.hex(' '):<47}  {shown}")
    return "\n".join(lines)


def _text(part: bytes, *, is_cut: bool) -> str | None:
    try:
        return part.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start > len(part) - 4:
            return part[: error.start].decode()
        return None


def _parsed(body: bytes) -> tuple[Any, bool]:
    """Return a JSON document, and whether it is one: an object or a list."""
    if len(body) > _JSON_MAX or body.lstrip()[:1] not in (b"{", b"["):
        return None, False
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None, False
    return (found, True) if _is_shallow(found) else (None, False)


def _is_shallow(document: Any) -> bool:
    """Whether nothing in a document is nested so deep that a walk through it may fail."""
    level = [document]
    for _ in range(_DEPTH_MAX):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return True
    return False


def _queue_neighbours(store: Store, view: MessageView) -> tuple[int | None, int | None, int | None]:
    """Return the physical offsets before, at and after the message's place in its queue."""
    first = max(view.queue_offset - 1, 0)
    try:
        found = store.read(view.topic, view.queue_id, first, 3, 1 << 20)
        places = dict(
            zip(found.queue_offsets, (each.physical_offset for each in found), strict=True)
        )
        if view.queue_offset + 1 not in places and view.queue_offset + 1 < found.max_queue_offset:
            after = store.read(view.topic, view.queue_id, view.queue_offset + 1, 1, 1)
            places |= dict(
                zip(after.queue_offsets, (each.physical_offset for each in after), strict=True)
            )
        if view.queue_offset not in places:
            own = store.read(view.topic, view.queue_id, view.queue_offset, 1, 1)
            places |= dict(
                zip(own.queue_offsets, (each.physical_offset for each in own), strict=True)
            )
    except (NoReaderError, PluginError, CorruptFileError, ValueError):
        return None, None, None
    here = view.queue_offset
    return places.get(here - 1), places.get(here), places.get(here + 1)


def _after_in_log(store: Store, end: int) -> int | None:
    if end >= store.log.max_physical_offset:
        return None
    if store.log.read_message(end) is not None:
        return end
    later = [each for each in store.log.file_offsets if each >= end]
    for start in (end, *later[:1]):
        for batch in store.scan(start, min(start + _JSON_MAX, store.log.max_physical_offset)):
            if len(batch):
                return int(batch.physical_offset[0])
    return None


def _before_in_log(store: Store, offset: int) -> int | None:
    """Return where the record before an offset begins, if it is near."""
    starts = [each for each in store.log.file_offsets if each < offset]
    for size in (16 << 10, 256 << 10, 8 << 20):
        begin = max(offset - size, starts[-1] if starts else offset)
        last = None
        for batch in store.scan(begin, offset):
            if len(batch):
                last = int(np.max(batch.physical_offset))
        if last is not None or begin == (starts[-1] if starts else offset):
            return last
    return None


def _lost_text(store: Store, place: int) -> str | None:
    for loss in store.losses():
        if loss.start_offset <= place < loss.end_offset:
            return (
                f"The log has lost what was at physical offset {place}: {loss.reason}, "
                f"{loss.size} bytes from {loss.start_offset} on."
            )
    return None


def document_of(detail: MessageDetail) -> dict[str, Any]:
    """Return plain values, with the fields of ``reput get --json``."""
    from reput_tools.cli.messages import message_document

    found = attrs.asdict(detail, filter=lambda field, _: field.name != "view")
    return found | {"message": message_document(detail.view, body="none")}


def record_rows(
    record: bytes, fields: tuple[RecordField, ...]
) -> list[tuple[int, list[tuple[str, str]], list[tuple[str, str]]]]:
    """Return the rows of a hex dump: position, runs of hex by field, and runs of text by field.

    Args:
        record: the beginning of the record.
        fields: of the record; a run has the class ``f`` and the field's number modulo 8.
    """
    rows = []
    for at in range(0, len(record), 16):
        end = min(at + 16, len(record))
        runs: list[tuple[str, str]] = []
        texts: list[tuple[str, str]] = []
        for number, field in enumerate(fields):
            low, high = max(at, field.start), min(end, field.start + field.size)
            if low < high:
                part = record[low:high]
                shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)
                runs.append((f"f{number % 8}", part.hex(" ")))
                texts.append((f"f{number % 8}", shown))
        rows.append((at, runs, texts))
    return rows
