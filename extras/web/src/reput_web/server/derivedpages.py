"""Pages of what plugins derive: open transactions, compacted topics, and bytes of any file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reput_web.errors import BadRequestError
from reput_web.readmodel import compacted, filebytes, transactions
from reput_web.server.rendering import url

if TYPE_CHECKING:
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget
    from reput_web.server.parameters import Parameters

_COUNT: Final = 100
_COUNT_MAX: Final = 500
_QUEUE_MAX: Final = (1 << 31) - 1


def transactions_page(
    opened: OpenedStore, given: Parameters, budget: WorkBudget
) -> tuple[dict[str, Any], Any]:
    """Return open transactions, the oldest first."""
    group = given.text("group")
    found = transactions.transactions_of(
        opened, given.whole("at") or 0, group, _count(given), budget
    )
    following = None
    if found is not None and found.next_at is not None:
        following = url("/transactions", group=group, at=found.next_at)
    values = {
        "transactions": found,
        "group": group,
        "following": following,
        "again": url("/transactions", group=group, at=given.whole("at")),
    }
    return values, transactions.document_of(found) | {"next": _as_json(following)}


def compaction_page(
    opened: OpenedStore, given: Parameters, budget: WorkBudget
) -> tuple[dict[str, Any], Any]:
    """Return compacted queues; of one queue its keys, or the versions of a key."""
    topic, key = given.text("topic"), given.text("key")
    queue_id = given.whole("queue", _QUEUE_MAX)
    if topic is None and (key or queue_id is not None):
        raise BadRequestError("A queue or a key needs a topic: choose one.")
    queues = compacted.compacted_of(opened)
    page = following = None
    if topic is not None:
        own = [each for each in queues or () if each.topic == topic]
        if queue_id is None and key is None and own:
            queue_id = own[0].queue_id
        ids = [each.queue_id for each in own] if queue_id is None else [queue_id]
        first = given.whole("from", _QUEUE_MAX) or 0
        page = compacted.version_page(
            opened,
            topic,
            [each for each in ids if each >= first],
            key,
            given.whole("at"),
            _count(given),
            budget,
        )
        if page.next_at is not None:
            following = url(
                "/compaction",
                topic=topic,
                queue=queue_id,
                key=key,
                from_=page.next_queue_id,
                at=page.next_at,
            )
    values = {
        "queues": queues,
        "topic": topic,
        "queue_id": queue_id,
        "key": key,
        "page": page,
        "following": following,
        "most": max((each.size for each in queues or ()), default=0),
    }
    return values, compacted.document_of(queues, page) | {"next": _as_json(following)}


def bytes_page(
    opened: OpenedStore, given: Parameters, budget: WorkBudget
) -> tuple[dict[str, Any], Any]:
    """Return some bytes of a file of the store."""
    file, at = given.required("file"), given.whole("at") or 0
    found = filebytes.bytes_of(opened, file, at, given.whole("size") or 0)
    near = {
        name: None if place is None else url("/bytes", file=file, at=place)
        for name, place in (("before", found.before), ("after", found.after))
    }
    return {"part": found, **near}, filebytes.document_of(found)


def _count(given: Parameters) -> int:
    return min(max(given.whole("count", _COUNT_MAX) or _COUNT, 1), _COUNT_MAX)


def _as_json(address: str | None) -> str | None:
    return address and address.replace("?", ".json?", 1)
