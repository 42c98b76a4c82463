"""What each page reads, and which template shows it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_web.errors import BadRequestError
from reput_web.readmodel import (
    childsearch,
    compacted,
    delayed,
    groups,
    message,
    messagelist,
    overview,
    story,
    topics,
    topicsettings,
)
from reput_web.server import derivedpages
from reput_web.server.charts import due_chart, lag_chart
from reput_web.server.parameters import Parameters
from reput_web.server.rendering import url
from reput_web.server.timechart import time_chart

if TYPE_CHECKING:
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget

_COUNT: Final = 50
_COUNT_MAX: Final = 500
_TAIL: Final = 30
_SEARCH_MAX: Final = 500
_MESSAGE_ID: Final = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")


@attrs.frozen
class Shown:
    """What a page shows: values of its template, and the same as plain values for JSON."""

    values: dict[str, Any]
    document: Any


@attrs.frozen
class Redirect(Exception):
    """Another address has what was asked for."""

    address: str


@attrs.frozen
class Page:
    """One page."""

    path: str
    template: str
    read: Callable[[OpenedStore, Parameters, WorkBudget], Shown]


def _overview(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    since, until = given.time("since"), given.time("until")
    counts_all = given.flag("count")
    found = overview.overview_of(opened, budget, since=since, until=until, counts_all=counts_all)
    is_part = since is not None or until is not None
    all_counted = None
    if found.activity is not None and found.activity.is_partial and not counts_all:
        times = {name: given.text(name) for name in ("since", "until")}
        all_counted = url("/overview", **times, count=True)
    values = {
        "overview": found,
        "chart": time_chart(found.activity, "/overview", is_part=is_part),
        "all_counted": all_counted,
    }
    return Shown(values, overview.document_of(found))


def _topics(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    wanted = (given.text("q") or "").lower()
    order = given.choice("sort", "name", "messages", "queues", "last", "kind")
    rows = topics.topic_rows(opened.queues(), compacted.kept_counts(opened))
    shown = [each for each in rows if wanted in each.topic.lower()]
    keys: dict[str, Callable[[topics.TopicRow], Any]] = {
        "name": lambda each: each.topic.lower(),
        "messages": lambda each: (-each.message_count, each.topic),
        "queues": lambda each: (-each.queue_count, each.topic),
        "last": lambda each: (-(each.last_timestamp or 0), each.topic),
        "kind": lambda each: (each.kind, each.topic),
    }
    shown.sort(key=keys[order])
    most = max((each.message_count for each in shown), default=0)
    values = {"rows": shown, "total": len(rows), "q": given.text("q"), "sort": order, "most": most}
    return Shown(values, {"topics": [attrs.asdict(each) for each in shown]})


def _topic(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    name = given.required("name")
    row, queues = topics.topic_row(opened, name)
    since, until = given.time("since"), given.time("until")
    activity = topics.activity_of(opened, queues, budget, by_queue=True, since=since, until=until)
    readers = groups.readers_of(opened, name)
    settings = topicsettings.settings_of(opened, name)
    values = {
        "row": row,
        "queues": queues,
        "activity": activity,
        "chart": time_chart(
            activity, "/topic", name, is_part=since is not None or until is not None
        ),
        "readers": readers,
        "most": max((each.message_count for each in queues), default=0),
        "most_lag": max((lag for _, lag in readers), default=0),
        "settings": settings,
    }
    document = {
        **attrs.asdict(row),
        "queues": [attrs.asdict(each) for each in queues],
        "activity": None if activity is None else attrs.asdict(activity),
        "groups": [{"group": group, "lag": lag} for group, lag in readers],
        "settings": None if settings is None else attrs.asdict(settings),
    }
    return Shown(values, document)


def request_of(given: Parameters) -> messagelist.MessageRequest:
    """Return which messages an address asks for."""
    return messagelist.MessageRequest(
        topic=given.text("topic"),
        queue_id=given.whole("queue", (1 << 31) - 1),
        is_oldest_first=given.choice("order", "newest", "oldest") == "oldest",
        since=given.time("since"),
        until=given.time("until"),
        queue_offset=given.whole("offset"),
        at=given.whole("at"),
        key=given.text("key"),
        tag=given.text("tag"),
        where=given.text("where"),
        text=given.text("text", _SEARCH_MAX),
        is_regex=given.flag("regex"),
        ignores_case=given.flag("ignorecase"),
        count=min(max(given.whole("count", _COUNT_MAX) or _COUNT, 1), _COUNT_MAX),
    )


def _messages(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    request = request_of(given)
    if request.is_regex and request.text is not None:
        page = childsearch.search(opened.root, opened.follow_links, request, budget.seconds, budget)
    else:
        page = messagelist.message_page(opened, request, budget)
    address = {
        "topic": request.topic,
        "queue": request.queue_id,
        "order": "oldest" if request.is_oldest_first else None,
        "since": given.text("since"),
        "until": given.text("until"),
        "offset": request.queue_offset,
        "key": request.key,
        "tag": request.tag,
        "where": request.where,
        "text": request.text,
        "regex": request.is_regex,
        "ignorecase": request.ignores_case,
        "count": None if request.count == _COUNT else request.count,
    }
    following = None
    if page.next_at is not None:
        following = url("/messages", **address, at=page.next_at)
    known = opened.topic_queues(request.topic) if request.topic else []
    values = {
        "page": page,
        "asked": request,
        "address": address,
        "following": following,
        "first": url("/messages", **address),
        "queues": [each.queue_id for each in known],
        "topics": sorted({each.topic for each in opened.queues()})[:1_000],
    }
    document = messagelist.document_of(page)
    return Shown(values, {**document, "next": following and following.replace("?", ".json?", 1)})


def _tail(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    request = attrs.evolve(request_of(given), count=given.whole("count", _COUNT_MAX) or _TAIL)
    if request.is_regex:
        raise BadRequestError("New messages are searched for a text, not for an expression.")
    rows, cursor = messagelist.new_messages(opened, request, budget)
    address = {
        "topic": request.topic,
        "queue": request.queue_id,
        "key": request.key,
        "tag": request.tag,
        "where": request.where,
        "text": request.text,
        "ignorecase": request.ignores_case,
    }
    values = {
        "rows": rows,
        "asked": request,
        "following": url("/tail", **address, at=cursor),
        "first": url("/tail", **address),
        "paused": url("/messages", **address),
    }
    document = {"rows": [attrs.asdict(each) for each in rows], "next_at": cursor}
    return Shown(values, document)


def _message(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    offset, form = given.whole("at"), given.text("body")
    if offset is None and given.text("topic") is not None:  # the copy in a compacted topic
        place = given.required("topic"), given.whole("queue") or 0, given.whole("offset") or 0
        detail = message.compacted_detail(opened, *place, form)
    else:
        detail = message.message_detail(opened, -1 if offset is None else offset, form)
    shown_record = detail.view.record[:4_096]
    values = {
        "detail": detail,
        "record": message.record_rows(shown_record, detail.fields),
        "record_cut": len(detail.view.record) > len(shown_record),
    }
    return Shown(values, message.document_of(detail))


def _story(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    offset = given.whole("at")
    found = story.story_of(opened, -1 if offset is None else offset, budget)
    return Shown({"story": found}, attrs.asdict(found))


def _groups(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    found = groups.groups_of(opened)
    most = max((each.lag for each in found or ()), default=0)
    return Shown({"groups": found, "most": most}, groups.document_of(found))


def _group(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    found = groups.group_of(opened, given.required("name"))
    letters = groups.dead_letters_of(opened, found.group)
    values = {
        "group": found,
        "most": max((each.lag for each in found.queues), default=0),
        "chart": lag_chart(found.queues),
        "letters": letters,
    }
    return Shown(
        values, attrs.asdict(found) | {"dead_letters": [attrs.asdict(each) for each in letters]}
    )


def _delayed(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    found = delayed.delayed_of(opened)
    most = max((each.message_count for each in found.bars), default=0) if found else 0
    values = {"delayed": found, "most": most, "chart": due_chart(found.bars) if found else ""}
    return Shown(values, delayed.document_of(found))


def _derived(
    read: Callable[[OpenedStore, Parameters, WorkBudget], tuple[dict[str, Any], Any]],
) -> Callable[[OpenedStore, Parameters, WorkBudget], Shown]:
    return lambda opened, given, budget: Shown(*read(opened, given, budget))


def _find(opened: OpenedStore, given: Parameters, budget: WorkBudget) -> Shown:
    raise Redirect(find_address(opened, given.text("q", _SEARCH_MAX) or ""))


def find_address(opened: OpenedStore, words: str) -> str:
    """Return the address of what a few words name: a message, a topic, a group, or a key."""
    from reput.errors import OffsetOutOfRangeError

    words = words.strip()
    if not words:
        return "/messages"
    if _MESSAGE_ID.fullmatch(words):
        try:
            return url("/message", at=opened.store.get(words).physical_offset)
        except (OffsetOutOfRangeError, ValueError):
            pass  # the id that a producer gave has as many digits
    if any(each.topic == words for each in opened.queues()):
        return url("/topic", name=words)
    plugin = opened.groups_plugin()
    if plugin is not None and words in plugin.groups():
        return url("/group", name=words)
    return url("/messages", key=words)


PAGES: Final = (
    Page("/overview", "overview.html", _overview),
    Page("/topics", "topics.html", _topics),
    Page("/topic", "topic.html", _topic),
    Page("/messages", "messages.html", _messages),
    Page("/tail", "tail.html", _tail),
    Page("/message", "message.html", _message),
    Page("/story", "story.html", _story),
    Page("/groups", "groups.html", _groups),
    Page("/group", "group.html", _group),
    Page("/delayed", "delayed.html", _delayed),
    Page("/transactions", "transactions.html", _derived(derivedpages.transactions_page)),
    Page("/compaction", "compaction.html", _derived(derivedpages.compaction_page)),
    Page("/bytes", "bytes.html", _derived(derivedpages.bytes_page)),
    Page("/find", "", _find),
)
