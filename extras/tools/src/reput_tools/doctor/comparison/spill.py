"""Keeps rows that wait for their like in files, once there are too many for memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from reput_tools.doctor.comparison.rows import CODE, NO_ROWS, OFFSET

if TYPE_CHECKING:
    import numpy.typing as npt

_PARTS: Final = 64
_SPREAD: Final = np.int64(0x9E3779B1)
_NEIGHBOURS: Final = 12  # bits: queue offsets that stay together, so that runs of them are seen


class Spill:
    """Rows of two stores in parts, so that rows of one queue and queue offset are in one part.

    Args:
        directory: an empty directory for files of this object.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def add(self, side: int, rows: npt.NDArray[np.int64]) -> None:
        """Append ``(n, 4)`` rows of one store, which is 0 or 1."""
        part = self._part_of(rows)
        for number in np.unique(part).tolist():
            with open(self._path(side, number), "ab") as file:
                file.write(rows[part == number].tobytes())

    def parts(self) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Yield the rows of both stores, part by part, each in the order in which they came."""
        for number in range(_PARTS):
            yield self._read(0, number), self._read(1, number)

    def _read(self, side: int, number: int) -> npt.NDArray[np.int64]:
        path = self._path(side, number)
        if not os.path.exists(path):
            return NO_ROWS
        return np.fromfile(path, np.int64).reshape(-1, 4)

    def _path(self, side: int, number: int) -> str:
        return os.path.join(self._directory, f"{side}-{number}")

    @staticmethod
    def _part_of(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        mixed = (rows[:, CODE] * _SPREAD) ^ ((rows[:, OFFSET] >> _NEIGHBOURS) * _SPREAD)
        found: npt.NDArray[np.int64] = (mixed >> 7) & (_PARTS - 1)
        return found
