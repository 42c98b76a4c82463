"""Judges differences between files of sums and those that a rebuild gives."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput.files import is_file_name
from reput.plugin import Compared
from reput_integrity._coverage import outside_of
from reput_integrity._files import SumFiles
from reput_integrity.layout import DIRECTORY, ORIGINS_NAME, SUMS_NAME, UNIT_DTYPE

if TYPE_CHECKING:
    from reput.plugin import Comparison, Difference
    from reput_integrity._sums import Units

__all__ = ["weigh"]


def weigh(comparison: Comparison, differences: Sequence[Difference]) -> Compared:
    """Return the differences that count, and what could not be compared.

    When sums were made does not follow from the log. Sums of records of which a loss is noted are
    those of bytes that the log has no more.
    """
    counting, untold = [], []
    for each in differences:
        directory, name = os.path.split(each.path)
        if each.path == f"{DIRECTORY}/{ORIGINS_NAME}":
            untold.append(f"{each.path}: when sums were made does not follow from the log")
        elif directory == f"{DIRECTORY}/{SUMS_NAME}" and is_file_name(name):
            counting += _weighed(comparison, each, int(name))
        else:
            counting.append(each)
    return Compared(tuple(counting), tuple(untold))


def _weighed(comparison: Comparison, difference: Difference, base: int) -> list[Difference]:
    sides = []
    for root in (comparison.root, comparison.built):
        directory = os.path.join(root, DIRECTORY, SUMS_NAME)
        files = SumFiles(directory, comparison.disk, comparison.log.file_size)
        units = files.read(base)
        if len(units.unsound):
            return [attrs.evolve(difference, position=int(units.unsound[0]))]
        end = base + files.file_size
        sides.append(outside_of(comparison.log.losses(base, end), units))
    row = _first_difference(*sides)
    if row is None:
        return []
    return [attrs.evolve(difference, position=row * UNIT_DTYPE.itemsize)]


def _first_difference(mine: Units, built: Units) -> int | None:
    count = min(len(mine), len(built))
    same = (
        (mine.position[:count] == built.position[:count])
        & (mine.size[:count] == built.size[:count])
        & (mine.crc[:count] == built.crc[:count])
    )
    if not same.all():
        return int(np.flatnonzero(~same)[0])
    return None if len(mine) == len(built) else count
