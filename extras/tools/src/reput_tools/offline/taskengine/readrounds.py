"""Reads logs in two rounds: in splits, and in one piece where a split is not sound.

First every split is read by itself. Where a split is not sound, or does not end where the next one
begins, what follows is read once more in one piece, from the last border that is certain to the
next: that finds each damage, and where the log goes on after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs

from reput_tools.offline.logsplits import Split

if TYPE_CHECKING:
    from reput_tools.offline.taskengine.engine import Engine, Work


class LogPlace(Protocol):
    """Which log a split belongs to; equal for splits of one log."""

    @property
    def file_size(self) -> int:
        """Bytes of one file of the log."""
        ...


class SplitTask(Protocol):
    """A split of a log that is read by itself: an attrs class, whose `split` is replaced."""

    @property
    def place(self) -> LogPlace:
        """The log."""
        ...

    @property
    def split(self) -> Split:
        """The part of the log to read."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the part."""
        ...


_Task = TypeVar("_Task", bound=SplitTask)


def read_in_rounds(
    tasks: Sequence[_Task],
    engine: Engine,
    check: Work,
    search: Work,
    lengthen: Callable[[_Task], _Task] = lambda task: task,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[tuple[_Task, Any]]:
    """Read every split; then read splits that are not valid once more, joined.

    Args:
        tasks: the splits of one log after the other, in their order.
        engine: runs the tasks.
        check: reads one split; its result has an attribute ``is_sound``.
        search: reads a stretch that is not sound, and gets past damage.
        lengthen: called with each stretch that is searched, as its end may not be certain.
        progress: called with bytes done and bytes in all; bytes read twice count twice.

    Returns:
        What was read, in the order of the logs, each part once: tasks and results.
    """
    size = sum(task.size for task in tasks)
    checked = engine.run(check, tasks, lambda done: progress(done, size))
    kept, doubtful = _sort_out(tasks, [each.is_sound for each in checked])
    doubtful = [(number, lengthen(task)) for number, task in doubtful]
    again = sum(task.size for _, task in doubtful)
    stretches = [task for _, task in doubtful]
    searched = (
        engine.run(search, stretches, lambda done: progress(size + done, size + again))
        if stretches
        else []
    )
    found = [(number, (tasks[number], checked[number])) for number in kept]
    found += [
        (number, (task, result)) for (number, task), result in zip(doubtful, searched, strict=True)
    ]
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def _sort_out(
    tasks: Sequence[_Task], sound: Sequence[bool]
) -> tuple[list[int], list[tuple[int, _Task]]]:
    """Return the numbers of tasks whose results count, and what to read in one piece instead.

    The beginning of a log is a border, and so is the end of a valid split that began at a border;
    after a split that is not valid, only the beginning of the next file is a border for certain.
    """
    kept: list[int] = []
    again: list[tuple[int, _Task]] = []
    is_open = False
    for number, task in enumerate(tasks):
        place, split = task.place, task.split
        is_first = number == 0 or tasks[number - 1].place != place
        if is_first or split.start_offset % place.file_size == 0:
            is_open = False
        if is_open:
            first, begun = again[-1]
            longer = Split(begun.split.number, begun.split.start_offset, split.end_offset)
            again[-1] = first, attrs.evolve(begun, split=longer)  # type: ignore[misc]
        elif sound[number]:
            kept.append(number)
        else:
            again.append((number, task))
            is_open = True
    return kept, again
