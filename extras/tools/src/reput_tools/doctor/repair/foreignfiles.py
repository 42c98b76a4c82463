"""Finds log files that hold valid records, but of another log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import attrs

from reput_tools.doctor.repair.loglayout import Notice

if TYPE_CHECKING:
    from reput.log import LogReader
    from reput_tools.doctor.repair.loglayout import LogLayout
    from reput_tools.doctor.repair.pluginhints import PluginHints

_FOREIGN_SAMPLES_MIN: Final = 8


def foreign_files(log: LogReader, known: PluginHints, layout: LogLayout) -> frozenset[int]:
    """Return bases of files that hold valid records of another log.

    The queues know what stands in each file. If none of what they know is in one file, and most of
    it is in the others, the file belongs to another store.
    """
    right: dict[int, int] = {}
    wrong: dict[int, int] = {}
    for base, places in known.samples.items():
        for place in places:
            message = log.read_message(place.physical_offset, place.size)
            counts = right if message is not None else wrong
            counts[base] = counts.get(base, 0) + 1
    bases = {part.base for part in layout.parts}
    suspects = {
        base
        for base, count in wrong.items()
        if base in bases and count >= _FOREIGN_SAMPLES_MIN and not right.get(base)
    }
    if not suspects or len(suspects) * 2 > len(bases):
        return frozenset()
    # Damaged all over is not foreign: a foreign file has records, which queues do not know.
    return frozenset(base for base in suspects if _has_record(log, base))


def _has_record(log: LogReader, base: int) -> bool:
    end = base + log.file_size
    return log.next_record(base, end) < end


def without(layout: LogLayout, bases: frozenset[int]) -> LogLayout:
    """Return a layout without the files at ``bases``, and with a notice for each of them."""
    notices = [*layout.notices]
    for part in layout.parts:
        if part.base in bases:
            text = "it holds no message that the queues know; it belongs to another store, and is"
            name = os.path.basename(part.path)
            notices.append(Notice(f"commitlog/{name}", "log-file.foreign", f"{text} left out"))
    parts = tuple(part for part in layout.parts if part.base not in bases)
    return attrs.evolve(layout, parts=parts, notices=tuple(notices))
