"""Half messages of open transactions, as far as the log can be read within a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import PluginError

if TYPE_CHECKING:
    from reput_transaction import HalfMessage
    from reput_web.readmodel.openedstore import OpenedStore
    from reput_web.readmodel.workbudget import WorkBudget


@attrs.frozen(kw_only=True)
class HalfRow:
    """One half message."""

    transaction_id: str
    topic: str | None
    """The topic for which it is."""
    queue_id: int | None
    group: str | None
    keys: tuple[str, ...]
    tags: str | None
    born_timestamp: int
    store_timestamp: int
    times_checked: int
    """How often the store has asked the producer for the outcome."""
    member_of: str | None
    physical_offset: int
    half_queue_offset: int
    body_size: int


@attrs.frozen(kw_only=True)
class Transactions:
    """What a page shows of all that is open."""

    rows: tuple[HalfRow, ...]
    open_count: int
    oldest_timestamp: int | None
    next_at: int | None
    """The cursor of the next page."""
    left_size: int
    """Bytes of the log that are not read yet; the next request goes on there."""


def transactions_of(
    opened: OpenedStore, at: int, group: str | None, count: int, budget: WorkBudget
) -> Transactions | None:
    """Return open transactions, the oldest first; None without the plugin ``transaction``.

    Args:
        opened: the store.
        at: the cursor.
        group: only those of this producer group.
        count: rows, at most.
        budget: ends the reading of the log; the next call reads on.
    """
    try:
        from reput_transaction.plugin import TransactionPlugin
    except ModuleNotFoundError:
        return None
    try:
        plugin = opened.store.plugin(TransactionPlugin)
    except PluginError:  # the store of a broker, or one that does not use it
        plugin = opened.beside("consumequeue", "transaction").store.plugin(TransactionPlugin)
    page = plugin.dangling_page(count, lambda: budget.is_spent, at=at, group=group)
    return Transactions(
        rows=tuple(map(_row, page.halves)),
        open_count=page.open_count,
        oldest_timestamp=page.oldest_born_timestamp,
        next_at=page.next_at,
        left_size=page.left_size,
    )


def _row(half: HalfMessage) -> HalfRow:
    return HalfRow(
        transaction_id=half.transaction_id,
        topic=half.topic,
        queue_id=half.queue_id,
        group=half.group,
        keys=half.keys,
        tags=half.tags,
        born_timestamp=half.born_timestamp,
        store_timestamp=half.store_timestamp,
        times_checked=half.times_checked,
        member_of=half.member_of,
        physical_offset=half.physical_offset,
        half_queue_offset=half.queue_offset,
        body_size=len(half.body),
    )


def document_of(found: Transactions | None) -> dict[str, Any]:
    """Return plain values."""
    return {"transactions": None if found is None else attrs.asdict(found)}
