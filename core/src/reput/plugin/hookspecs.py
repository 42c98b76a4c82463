"""The whole contract between the store and any plugin: the hooks, in life-cycle order.

A plugin implements a hook by a method of the same name, marked ``@reput.hookimpl``, that takes, by
name, those of the hook's arguments that it needs. Hooks are called per batch or per operation,
never per message.

Threads: `reput_dispatch` and `reput_enrich` are never called twice at once, mostly on the reput
thread. `reput_open`, `reput_recover`, `reput_ready`, `reput_flush`, `reput_work`, `reput_trim`,
`reput_hold` and `reput_close` are called one after another, on a thread of the plugin's own;
`reput_flush`, `reput_work`, `reput_trim` and `reput_hold` may overlap a dispatch. Reads come from
any thread.

An exception of any kind, or a call that does not return, stops only the plugin that it comes from,
and the plugin's progress stays where it was. A failed `reput_dispatch` is called again with the
same messages, after a pause; after the last retry the plugin's policy decides (section ``dispatch``
of the configuration). Exceptions of `reput_put` and of reads go to the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin.messagefilter import MessageFilter
    from reput.plugin.readresults import QueryResult, QueueInfo, ReadColumns, ReadResult
    from reput.plugin.storecontext import StoreContext
    from reput.record.batch import DispatchBatch
    from reput.record.messages.message import Message

PROJECT = "reput"
hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks a function as the specification of a hook of the store, or of a tool."""
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plugin's method as the implementation of the hook of the same name."""


# --------------------------------------------------------------------------- opening


@hookspec
def reput_open(context: StoreContext) -> None:
    """Keep ``context``, and load the plugin's files.

    Called before any other hook, and after `reput_close` when a suspended plugin is resumed: start
    then as a new object would. Write nothing here, and nothing in any hook if ``context.writable``
    is false.

    Args:
        context: the store's directory, clock, disk and log.
    """


@hookspec
def reput_recover(max_physical_offset: int, progress: int) -> int:  # type: ignore[empty-body]
    """Bring the plugin's files in line with a log that ends at ``max_physical_offset``.

    Cut entries derived from bytes beyond that offset, and repair half-written entries. Entries
    beyond ``progress`` may come from records that were replaced since: drop them, or compare them
    when the messages come again. Called once at opening, after `reput_open`; also in a read-only
    store, where only memory may change, and nothing is dispatched or flushed.

    Args:
        max_physical_offset: end of the valid log; after a failed flush of the plugin, the offset up
            to which its files are valid, though the log goes on.
        progress: physical offset below which the plugin's files were complete and flushed, as far
            as the store knows; never beyond ``max_physical_offset``.

    Returns:
        The physical offset from which on messages are needed again: ``progress``, or less if
        entries are missing; 0 without files. Remove what was derived from messages after it;
        then a lower offset is safe, and only costs time.
    """


@hookspec(firstresult=True)
def reput_queue_offsets() -> Mapping[tuple[str, int], int] | None:
    """Return the next queue offset of every (topic, queue id), after all of the log is dispatched.

    The first answer other than None counts; without one the store reads the log.
    """


@hookspec
def reput_ready(queue_offsets: Mapping[tuple[str, int], int]) -> None:
    """Compare the plugin's files with the queues, before any message is put.

    Called in writable stores only: at opening, after all plugins have recovered and the log was
    dispatched to the plugins that keep queues; and when the plugin is added or resumed. A file may
    count more messages than the log has, as RocketMQ saves such files before its log is on disk.
    The next messages get those queue offsets, so lower such counts here, durably. The store cannot
    be read through the context yet. An exception suspends the plugin. A replica calls this when it
    is promoted.

    Args:
        queue_offsets: the queue offset that the next message of each (topic, queue id) gets; a
            queue that is missing begins at 0.
    """


# --------------------------------------------------------------------------- writing


@hookspec
def reput_put(messages: Sequence[Message]) -> Sequence[Message] | None:
    """Look at, refuse or rewrite messages that are about to be stored.

    Plugins are called in dispatch order, each with the messages that the plugin before it returned.
    Return as many messages, or None to leave them unchanged; raise a `reput.errors.PutError`, which
    reaches the caller, to refuse them all.

    Args:
        messages: one put's messages; never change them, but return changed copies
            (``attrs.evolve``).
    """


# --------------------------------------------------------------------------- dispatching


@hookspec
def reput_enrich(batch: DispatchBatch) -> Mapping[str, npt.NDArray[Any]] | None:
    """Compute columns of ``batch`` for all plugins, before any plugin dispatches it.

    Return ``(len(batch),)`` arrays by column name, or None. ``tags_code`` may be replaced this way.
    Called while the plugin is suspended, too, unless it failed in this hook: what others derive is
    to be the same whenever it is derived.

    Args:
        batch: one message or more; read-only, valid until the call returns.
    """


@hookspec
def reput_dispatch(batch: DispatchBatch) -> None:
    """Index ``batch``, the next messages in commit-log order.

    Delivery is at least once: after a crash or an exception the same messages come again, perhaps
    in other batches, so skip messages that are already indexed (`DispatchBatch.after`). Results
    must not depend on where the log is split into batches.

    Args:
        batch: one message or more; read-only, valid until the call returns.
    """


@hookspec
def reput_arrive(batch: DispatchBatch) -> None:
    """Wake readers that wait for messages: all running plugins have dispatched ``batch``.

    Called again for a batch that a plugin with ``reput_read`` dispatches later than the others.

    Args:
        batch: read-only, valid until the call returns.
    """


@hookspec
def reput_flush() -> Mapping[str, int] | None:
    """Make durable everything that was dispatched before this call.

    Called after the log itself was flushed, on the plugin's thread, after a slice of its own work
    that is under way, perhaps during a dispatch. The plugin's progress is recorded only after this
    has returned. If it raises, the plugin is suspended, as a failed flush leaves unknown bytes on
    disk; when it is resumed, its files are cut to the last progress. If it finds the disk full
    while it writes (`reput.files.is_disk_full`), it is called again until there is space. Return
    times for the checkpoint, by the names of its fields (``index_timestamp``), or None.
    """


# --------------------------------------------------------------------------- working


@hookspec
def reput_work(now: int) -> int | None:
    """Do work that is due by the clock: deliver, check back, compact.

    Called on the plugin's thread in writable stores: soon after opening, then at the time that it
    returned, and whenever the plugin calls `StoreContext.wake`. Dispatches and reads may run
    meanwhile. Work in slices of some 100 ms and ask to be called again at once: flushing the store,
    closing it and suspending the plugin wait for a slice to end. After an exception it is called
    again, after a pause; then the plugin is suspended.

    Args:
        now: the store's clock, ms. It may jump, either way.

    Returns:
        When to be called again, ms: ``now`` for at once, None to sleep until woken.
    """


# --------------------------------------------------------------------------- reading


@hookspec(firstresult=True)
def reput_filter(expression: str, kind: str | None, topic: str | None) -> MessageFilter | None:
    """Compile a filter for reads; return None for a kind that the plugin does not know.

    The first answer other than None counts. May be called from any thread; raise a `ValueError`
    that names the fault of the expression.

    Args:
        expression: as the caller gave it.
        kind: the expression's language, by a word that plugins know; None for the plugin's default.
        topic: the topic that is going to be read; None if not known.
    """


@hookspec(firstresult=True)
def reput_read(
    topic: str,
    queue_id: int,
    queue_offset: int,
    max_count: int,
    max_bytes: int,
    filter: MessageFilter | None,  # noqa: A002 - the word for it
    as_columns: bool,
) -> ReadResult | ReadColumns | None:
    """Read messages of one queue from ``queue_offset`` on.

    The first answer other than None counts. May be called from any thread.

    Args:
        topic: the topic's name, as the caller gave it: check it before it becomes a path.
        queue_id: the queue.
        queue_offset: where to begin.
        max_count: most messages to return, 1 or more.
        max_bytes: stop before this many bytes of records, but return one message at least.
        filter: return only messages that it selects; None for all. If a plugin does not take this
            argument, the store applies the filter.
        as_columns: whether the caller wants columns. The store makes them of a `ReadResult`, which
            costs more.
    """


@hookspec(firstresult=True)
def reput_offset_by_time(topic: str, queue_id: int, timestamp: int, boundary: str) -> int | None:
    """Return the queue offset of the first message from ``timestamp`` on, or the last until then.

    Store times need not ascend, as a clock may be set back; see `reput.log.TimeRuns`.

    Args:
        topic: the topic's name.
        queue_id: the queue.
        timestamp: store time, ms.
        boundary: ``"lower"`` (first at or after) or ``"upper"`` (last at or before).
    """


@hookspec(firstresult=True)
def reput_query(
    topic: str,
    key: str,
    begin: int,
    end: int,
    limit: int | None,
    oldest_first: bool,
    after: int | None,
) -> QueryResult | None:
    """Find the messages of a topic by key.

    A message matches if its ``UNIQ_KEY`` or a word of its ``KEYS`` equals the whole key; an equal
    hash is not enough. The first answer other than None counts. May be called from any thread.

    Args:
        topic: the topic's name, as the caller gave it.
        key: the key.
        begin: store time of the oldest message wanted, ms.
        end: store time of the newest message wanted, ms.
        limit: most messages to return, 1 or more; None for all.
        oldest_first: whether the oldest message comes first, and not the newest.
        after: ``after`` of the previous answer: continue after its messages; None to begin.
    """


@hookspec
def reput_queues() -> Sequence[QueueInfo] | None:
    """Return the queues that the plugin can read; the store lists those of all plugins."""


# --------------------------------------------------------------------------- maintaining


@hookspec
def reput_trim(min_physical_offset: int) -> None:
    """Forget entries derived from bytes below ``min_physical_offset``: log files are removed.

    Called again at the next removal if it finds the disk full.

    Args:
        min_physical_offset: where the log begins now.
    """


@hookspec
def reput_hold() -> int | None:
    """Return the physical offset from which on the plugin still needs records it has already seen.

    Called before old log files are removed, on the plugin's thread; in read-only stores, from any
    thread. None if the plugin needs no record any more.
    """


@hookspec
def reput_report() -> Mapping[str, object] | None:
    """Return facts about the plugin for ``reput info``: JSON-like values by name."""


# --------------------------------------------------------------------------- closing


@hookspec
def reput_close() -> None:
    """Close the plugin's files. Everything was dispatched and flushed, unless that failed."""
