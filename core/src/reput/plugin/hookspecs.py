"""The whole contract between the store and any plugin: its hooks, in life-cycle order.

A hook is a method of the plugin's class, marked ``@reput.hookimpl``, that takes those of the listed
arguments which it needs, by name. All hooks are called per batch or per operation, never per
message.

Threads: `reput_dispatch` and `reput_enrich` are never called twice at once, mostly on the reput
thread. `reput_flush` runs on another thread and may overlap a dispatch. Reads come from any thread.
`reput_work` has a thread of its own. `reput_open`, `reput_recover` and `reput_close` run alone.

What a hook raises, whatever it is, stops this plugin only, and so does a call that does not return:
the store and the other plugins go on, and the plugin's progress stays where it was. A failed
`reput_dispatch` is called again with the same messages, after a pause; then the plugin's policy
decides (section ``dispatch`` of the configuration). What fails elsewhere is not tried again, and a
failed `reput_flush` never. Exceptions of `reput_put` and of reads go to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.plugin.answers import QueryResult, QueueInfo, ReadResult
    from reput.plugin.context import StoreContext
    from reput.plugin.filters import MessageFilter
    from reput.plugin.sharding import ShardBuilder
    from reput.record.batch import DispatchBatch
    from reput.record.message import Message

__all__ = ["PROJECT", "hookimpl"]

PROJECT = "reput"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a method of a plugin as the implementation of the hook of that name."""

FORMER_HOOKS = {
    "reput_commands": "name the plugin's commands as entry points of the group reput.commands",
}
"""Hooks that are not called any more, and what a plugin does instead."""


# --------------------------------------------------------------------------- opening


@hookspec
def reput_open(context: StoreContext) -> None:
    """Learn about the store and load what the plugin has on disk.

    Called before any other hook, and once more, behind `reput_close`, when a suspended plugin is
    resumed: begin anew, as a new object would. Write nothing here, and nothing anywhere when
    ``context.writable`` is false.

    Args:
        context: the store's directory, clock, disk and log; keep it.
    """


@hookspec
def reput_recover(max_physical_offset: int, progress: int) -> int:  # type: ignore[empty-body]
    """Bring the plugin's files in line with a log that ends at ``max_physical_offset``.

    Cut what was derived from bytes beyond it, mend what a crash left half-written, and return the
    physical offset from which on messages are needed again: ``progress``, or less where the files
    do not hold what ``progress`` promises; 0 when there are none. Returning less is always right
    and costs only time. What the files hold beyond ``progress`` may be of records that were
    replaced since: drop it, or compare it when the messages come again. Called once at opening,
    behind `reput_open`, in read-only stores too (then change only what is in memory; nothing is
    dispatched or flushed there).

    Args:
        max_physical_offset: end of the valid log; after a flush of the plugin has failed, how far
            its files are sound, though the log goes on.
        progress: physical offset below which the plugin's files were complete and flushed, as far
            as the store knows; never beyond ``max_physical_offset``.
    """


@hookspec(firstresult=True)
def reput_queue_offsets() -> Mapping[tuple[str, int], int] | None:
    """Next queue offset of every (topic, queue id), once all of the log is dispatched.

    The first plugin that answers anything but None decides; without one the store reads the log.
    """


# --------------------------------------------------------------------------- writing


@hookspec
def reput_put(messages: Sequence[Message]) -> Sequence[Message] | None:
    """Look at, refuse or rewrite messages that are about to be stored.

    Plugins are asked in dispatch order, each with what the one before it made of the messages.
    Return as many messages, or None to leave them as they are; raise a
    `reput.errors.PutError` to refuse them all. This is the one hook whose exceptions reach
    the caller of the store instead of suspending the plugin.

    Args:
        messages: one put's messages; make changed copies (``attrs.evolve``), never change these.
    """


# --------------------------------------------------------------------------- dispatching


@hookspec
def reput_enrich(batch: DispatchBatch) -> Mapping[str, npt.NDArray[Any]] | None:
    """Compute columns that other plugins will find in the batch, before anyone dispatches it.

    Return ``(len(batch),)`` arrays by column name, or None. ``tags_code`` may be replaced this way.

    Args:
        batch: one message or more; read-only, valid until the call returns.
    """


@hookspec
def reput_dispatch(batch: DispatchBatch) -> None:
    """Index ``batch``, the next messages in commit-log order.

    Called on the reput thread, never twice at once. Delivery is at least once: after a crash the
    same messages come again, so skip what is already there (`DispatchBatch.after`). Where the log
    is cut into batches means nothing. An exception stops this plugin only: its progress stays where
    it was, and the same messages, cut into batches in another way perhaps, come again.

    Args:
        batch: one message or more; read-only, valid until the call returns.
    """


@hookspec
def reput_arrive(batch: DispatchBatch) -> None:
    """Wake whoever waits for messages: all running plugins have dispatched ``batch``.

    Args:
        batch: read-only, valid until the call returns.
    """


@hookspec
def reput_flush() -> Mapping[str, int] | None:
    """Make durable everything that was dispatched before this call.

    Called after the log itself was flushed, on another thread than a dispatch and perhaps during
    one. The plugin's progress is recorded only when this has returned. When it raises, the plugin
    is suspended: what a failed flush leaves on disk is not known. Once resumed, its files are cut
    to the last progress and derived anew from there. Return times for the checkpoint, by the names
    of its fields (``index_timestamp``), or None.
    """


@hookspec
def reput_shards(context: StoreContext) -> ShardBuilder | None:
    """How the plugin's files are built from splits of the log, by several processes at once.

    Called in each of them, on an object of its own that is not opened; None where the files can
    only be built in order.

    Args:
        context: as in a read-only store; files keep the sizes that they have there.
    """


# --------------------------------------------------------------------------- working


@hookspec
def reput_work(now: int) -> int | None:
    """Do what is due by the clock: deliver, check back, compact.

    Called on a thread of the plugin's own, never twice at once, in stores that are open for
    writing: soon after opening, then at the time that it returned, and whenever the plugin had
    itself woken (`StoreContext.wake`). Dispatches, flushes and reads may run meanwhile. Work in
    slices of some 100 ms and ask to be called again at once: whoever closes the store or suspends
    the plugin waits for it. Return when to be called again, in ms: ``now`` for at once, None to
    sleep until woken. An exception is tried again after a pause; then the plugin is suspended.

    Args:
        now: the store's clock, ms. It may jump, either way.
    """


# --------------------------------------------------------------------------- reading


@hookspec(firstresult=True)
def reput_filter(expression: str, kind: str | None, topic: str | None) -> MessageFilter | None:
    """Compile a filter for reads; None for a kind that the plugin does not know.

    The first plugin that answers anything but None decides. May be called from any thread; raise a
    `ValueError` that says what is wrong with the expression.

    Args:
        expression: as the caller gave it.
        kind: its language, by a word that plugins know; None for the plugin's default.
        topic: the topic that is going to be read; None when that is not known.
    """


@hookspec(firstresult=True)
def reput_read(
    topic: str,
    queue_id: int,
    queue_offset: int,
    max_count: int,
    max_bytes: int,
    filter: MessageFilter | None,  # noqa: A002 - the word for it
) -> ReadResult | None:
    """Read messages of one queue from ``queue_offset`` on.

    The first plugin that answers anything but None decides. May be called from any thread.

    Args:
        topic: the topic's name, as the caller gave it: check it before it becomes a path.
        queue_id: the queue.
        queue_offset: where to begin.
        max_count: most messages to return, 1 or more.
        max_bytes: stop before this many bytes of records, but return one message at least.
        filter: return only messages that it selects; None for all. A plugin that does not take this
            argument is asked for all of them, and the store drops what is not wanted.
    """


@hookspec(firstresult=True)
def reput_offset_by_time(topic: str, queue_id: int, timestamp: int, boundary: str) -> int | None:
    """Queue offset of the first message stored at a time or later, or of the last until then.

    Args:
        topic: the topic's name.
        queue_id: the queue.
        timestamp: ms.
        boundary: ``"lower"`` (first at or after) or ``"upper"`` (last at or before).
    """


@hookspec(
    firstresult=True,
    warn_on_impl_args={
        "compat": DeprecationWarning(
            "reput_query is not asked for RocketMQ's answer any more; offer a method "
            "query_as_rocketmq(topic, key, begin, end, limit), as the plugin index does"
        )
    },
)
def reput_query(
    topic: str,
    key: str,
    begin: int,
    end: int,
    limit: int | None,
    oldest_first: bool,
    after: int | None,
    compat: bool,
) -> QueryResult | None:
    """Find the messages of a topic by key.

    A message matches when the whole key is its ``UNIQ_KEY`` or a word of its ``KEYS``; a hash of it
    is not enough. The first plugin that answers anything but None decides. May be called from any
    thread.

    Args:
        topic: the topic's name, as the caller gave it.
        key: the key.
        begin: store time of the oldest message wanted, ms.
        end: store time of the newest message wanted, ms.
        limit: most messages to return, 1 or more; None for all.
        oldest_first: in the order of the log, else against it.
        after: ``after`` of the answer before: go on behind its messages; None to begin.
        compat: of former releases, and true where `reput.Store.query` is asked in the former way.
    """


@hookspec
def reput_queues() -> Sequence[QueueInfo] | None:
    """Every queue that the plugin can read; the store shows those of all plugins together."""


# --------------------------------------------------------------------------- maintaining


@hookspec
def reput_trim(min_physical_offset: int) -> None:
    """Forget what was derived from bytes below ``min_physical_offset``: the log lost its head.

    Args:
        min_physical_offset: where the log begins now.
    """


@hookspec
def reput_hold() -> int | None:
    """Physical offset from which on the plugin needs the log, beside what it has yet to be given.

    Asked before the log loses its head, from any thread, and in read-only stores to say what would
    be lost. None when nothing is needed any more.
    """


@hookspec
def reput_report() -> Mapping[str, object] | None:
    """Facts about the plugin for ``reput info``: JSON-like values by name."""


@hookspec
def reput_methods() -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
    """Return methods that users may call on the open store itself, by name.

    Deprecated: `reput.Store.plugin` gives users the plugin's object, with all of its methods. Asked
    when somebody uses a name that the store does not have, in read-only stores too; of two plugins
    that offer one name the first in dispatch order is called.
    """


# --------------------------------------------------------------------------- closing


@hookspec
def reput_close() -> None:
    """Close files. Everything was dispatched and flushed before, unless something failed."""
