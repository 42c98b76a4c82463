"""`compare_stores`: where two stores differ."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Final

import attrs

import reput
from reput_tools.doctor.comparison.derivedfiles import compare_derived, derived_names
from reput_tools.doctor.comparison.jsonfiles import compare_config, compare_settings
from reput_tools.doctor.comparison.logcursor import LogCursor
from reput_tools.doctor.comparison.messages import WAITING_MAX, MessageComparison
from reput_tools.doctor.comparison.records import check_ignored
from reput_tools.doctor.comparison.rows import QueueCodes, RowMaker
from reput_tools.doctor.comparison.spill import Spill
from reput_tools.doctor.comparison.storediff import (
    LISTED_MAX,
    QueueDifference,
    QueueRange,
    SideFacts,
    StoreDiff,
)
from reput_tools.offline import inspect_store

if TYPE_CHECKING:
    from reput import Store
    from reput_tools.offline import Traces

_FILES_MAX: Final = LISTED_MAX


@attrs.define(eq=False)
class _Opened:
    """One of the stores."""

    store: Store
    traces: Traces
    start: int
    end: int
    is_open: bool
    problems: list[str]

    def tell(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)

    def facts(self, side: LogCursor) -> SideFacts:
        return SideFacts(
            path=self.store.root,
            message_count=side.maker.count,
            log_start=self.start,
            log_end=self.end,
            is_open=self.is_open,
            damaged=tuple(side.damaged),
            damage_count=side.damage_count,
            problems=tuple(self.problems),
        )


def compare_stores(
    path_a: str | os.PathLike[str],
    path_b: str | os.PathLike[str],
    *,
    physical: bool = False,
    ignored: Collection[str] = (),
    follow_links: bool = False,
    waiting_max: int = WAITING_MAX,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> StoreDiff:
    """Return where two stores differ: messages, queues, offsets, settings and derived files.

    Changes nothing and needs no plugin. Both logs are read once; memory does not grow with them.
    Beside a writer the log is compared up to where it ended when reading began.

    Args:
        path_a: one store's directory.
        path_b: the other one's.
        physical: whether a message that stands elsewhere in the log is a difference.
        ignored: fields of messages that may differ; names of `records.FIELDS`.
        follow_links: as for `reput.open`.
        waiting_max: messages without their like that wait in memory; more of them wait in files of
            the system's directory for temporary ones.
        progress: called with bytes done and bytes in all, of both logs together.

    Raises:
        StoreNotFoundError: no store at one of the paths.
        ValueError: a name in ``ignored`` is not a field.
    """
    check_ignored(ignored)
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        a = _open(stack, path_a, follow_links)
        b = _open(stack, path_b, follow_links)
        codes = QueueCodes()
        side_a = LogCursor(a.store.log, a.end, RowMaker(codes), a.start)
        side_b = LogCursor(b.store.log, b.end, RowMaker(codes), b.start)
        total = a.end - a.start + b.end - b.start
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="reput-diff-"))
        messages = MessageComparison(
            side_a,
            side_b,
            codes=codes,
            spill=Spill(directory),
            physical=physical,
            ignored=ignored,
            waiting_max=waiting_max,
            progress=lambda done: progress(min(done, total), total),
        )
        messages.run()
        progress(total, total)
        values = list(compare_config(a.traces, b.traces, a.tell, b.tell))
        sizes = a.store.log.file_size, b.store.log.file_size
        settings = list(compare_settings(a.traces, b.traces, sizes, a.tell, b.tell))
        names = derived_names(a.traces, b.traces)
        reasons = list(_not_compared(messages, a, b, names))
        files = []
        if not reasons:
            compared = compare_derived(a.traces, b.traces, names, follow_links=follow_links)
            files = [each for each, _ in zip(compared, range(_FILES_MAX), strict=False)]
        return StoreDiff(
            a=a.facts(side_a),
            b=b.facts(side_b),
            equal_count=messages.equal_count,
            only_in_a=messages.missing_count["a"],
            only_in_b=messages.missing_count["b"],
            changed_count=messages.changed_count,
            fields=dict(sorted(messages.fields.items(), key=lambda each: (-each[1], each[0]))),
            moved_count=messages.moved_count,
            missing=tuple(messages.missing),
            changed=tuple(messages.changed),
            queues=tuple(_queues(codes, side_a, side_b)),
            values=tuple(values),
            settings=tuple(settings),
            files=tuple(files),
            files_compared=tuple(names) if not reasons else (),
            not_compared=tuple(reasons),
            seconds=time.monotonic() - begun,
        )


def _open(stack: contextlib.ExitStack, path: str | os.PathLike[str], follow_links: bool) -> _Opened:
    store = stack.enter_context(reput.open(path, mode="r", plugins=(), follow_links=follow_links))
    traces = inspect_store(store.root, follow_links=follow_links)
    log = store.log
    return _Opened(
        store,
        traces,
        log.min_physical_offset,
        log.max_physical_offset,
        traces.is_open,
        list(store.problems),
    )


def _not_compared(
    messages: MessageComparison, a: _Opened, b: _Opened, names: list[str]
) -> Iterator[str]:
    """Yield why derived files are not compared; nothing where they are."""
    if not names:
        return
    is_same = not (messages.moved_count or messages.changed_count)
    is_same = is_same and not any(messages.missing_count.values())
    if not is_same or (a.start, a.end) != (b.start, b.end):
        yield (
            f"{', '.join(names)}: the logs are not the same byte by byte, so derived files have to "
            "differ; reput verify compares each store's with its own log"
        )
    elif a.is_open or b.is_open:
        yield f"{', '.join(names)}: a process is writing one of the stores"


def _queues(codes: QueueCodes, a: LogCursor, b: LogCursor) -> Iterator[QueueDifference]:
    """Yield queues whose ranges differ."""
    own, its = _ranges(a), _ranges(b)
    for code, (topic, queue_id, in_queue) in sorted(
        enumerate(codes.queues), key=lambda each: each[1]
    ):
        if in_queue and own.get(code) != its.get(code):
            yield QueueDifference(topic, queue_id, own.get(code), its.get(code))


def _ranges(side: LogCursor) -> dict[int, QueueRange]:
    keys, (count, lowest, highest) = side.maker.ranges.table()
    return {
        key: QueueRange(low, high + 1, messages)
        for key, messages, low, high in zip(
            keys.tolist(), count.tolist(), lowest.tolist(), highest.tolist(), strict=True
        )
    }
