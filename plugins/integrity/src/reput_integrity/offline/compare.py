"""Judges differences between files of sums and the files of a rebuild.

Where a valid unit contradicts the log, the log has changed and not the sum: such a difference names
the log's file, as a new sum would hide the damage.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput.files import file_name, is_file_name
from reput_integrity.checksumfiles import ChecksumFiles
from reput_integrity.checksumorigins import Origins
from reput_integrity.coverage import outside_of
from reput_integrity.layout import DIRECTORY, DISPUTES_NAME, ORIGINS_NAME, SUMS_NAME, UNIT_DTYPE
from reput_tools.offline import Compared, Difference

if TYPE_CHECKING:
    from reput_integrity.recordchecksums import Units
    from reput_tools.offline import Comparison

_ONE = UNIT_DTYPE.itemsize


def weigh(comparison: Comparison, differences: Sequence[Difference]) -> Compared:
    """Return the differences that count, and what could not be compared.

    When sums were made does not follow from the log, so the origins only have to be sound. Sums of
    records that the log has lost are those of bytes that nobody can read any more.
    """
    counting: list[Difference] = []
    bases: dict[int, None] = {}
    for path in dict.fromkeys(each.path for each in differences):
        directory, name = os.path.split(path)
        if path == f"{DIRECTORY}/{ORIGINS_NAME}":
            counting += _unsound_origins(comparison, path)
        elif path == f"{DIRECTORY}/{DISPUTES_NAME}":
            files = _files_in(comparison, comparison.root)
            files.load()
            size, trouble = files.file_size, files.trouble
            bases |= dict.fromkeys(each.start // size * size for each in files.disputes.rows)
            if trouble is not None:
                at, reason = trouble.position, "disputes cannot be read; damage may be hidden"
                counting.append(Difference(path, at, reason, kind="disputes", found=trouble.reason))
        elif directory == f"{DIRECTORY}/{SUMS_NAME}" and _is_place(name):
            bases[int(name)] = None
        else:
            counting += [each for each in differences if each.path == path]
    for base in sorted(bases):
        path = f"{DIRECTORY}/{SUMS_NAME}/{file_name(base)}"
        counting += islice(_weighed(comparison, path, base), max(comparison.limit, 1))
    return Compared(tuple(counting))


def _is_place(name: str) -> bool:
    """Whether a name is an offset that a log can have; a file of sums has no other name."""
    return is_file_name(name) and int(name) < 1 << 62


def _unsound_origins(comparison: Comparison, path: str) -> list[Difference]:
    reason = "nothing is known of when sums were made"
    try:
        if Origins.load(os.path.join(comparison.root, path), comparison.disk) is not None:
            return []
    except CorruptFileError as error:
        return [Difference(path, error.position, reason, kind="origins", found=error.reason)]
    return [Difference(path, 0, reason, kind="missing", found="no file", is_absent=True)]


def _weighed(comparison: Comparison, path: str, base: int) -> Iterator[Difference]:
    sides = (comparison.root, comparison.built)
    mine, built = (_units_in(comparison, root, base) for root in sides)
    size = comparison.log.file_size
    losses = comparison.log.losses(base, base + size)
    mine, built = (
        kept[~comparison.is_lost(kept.start)]
        for kept in (outside_of(losses, mine), outside_of(losses, built))
    )
    row_of = np.searchsorted(built.position, mine.position)
    is_there = row_of < len(built)
    is_there[is_there] = built.position[row_of[is_there]] == mine.position[is_there]
    rows, others = np.flatnonzero(is_there), row_of[is_there]
    same = (mine.size[rows] == built.size[others]) & (mine.crc[rows] == built.crc[others])
    for row, other in zip(rows[~same].tolist(), others[~same].tolist(), strict=True):
        at = int(mine.position[row])
        yield Difference(
            f"commitlog/{file_name(base)}",
            at,
            "the record is not what was summed; the log has changed, do not make sums again",
            kind="record",
            size=int(mine.size[row]),
            found=_words(built, other),
            expected=_words(mine, row),
            messages=(comparison.touched(base + at),),
            message_count=1,
        )
    for at in mine.unsound.tolist():
        found = "a unit that does not match its check, or stands at a wrong place"
        yield Difference(path, at, "a sum cannot be believed", kind="unit", size=_ONE, found=found)
    for row in np.flatnonzero(~is_there).tolist():
        yield _difference(path, mine, row, "a sum of a record that the log does not have", "unit")
    if len(mine.unsound):
        return  # these are the units that are missing
    for row in np.flatnonzero(~np.isin(built.position, mine.position)).tolist():
        at = int(np.searchsorted(mine.position, built.position[row])) * _ONE
        yield Difference(
            path,
            at,
            "a record has no sum",
            kind="unit",
            size=_ONE,
            expected=_words(built, row),
            messages=(comparison.touched(int(built.start[row])),),
            message_count=1,
            is_absent=True,
        )


def _units_in(comparison: Comparison, root: str, base: int) -> Units:
    files = _files_in(comparison, root)
    if root == comparison.root:  # a built file has the sums of the log as it is
        files.load()
    return files.read(base)


def _files_in(comparison: Comparison, root: str) -> ChecksumFiles:
    directory = os.path.join(root, DIRECTORY, SUMS_NAME)
    return ChecksumFiles(directory, comparison.disk, comparison.log.file_size)


def _difference(path: str, units: Units, row: int, reason: str, kind: str) -> Difference:
    return Difference(path, row * _ONE, reason, kind=kind, size=_ONE, found=_words(units, row))


def _words(units: Units, row: int) -> str:
    start, size, crc = int(units.start[row]), int(units.size[row]), int(units.crc[row])
    return f"record at {start} of {size} bytes, CRC-32 {crc:08x}"
