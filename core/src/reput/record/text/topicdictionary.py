"""Dictionary-encodes topics: a column of names in a window becomes codes and a table of names.

A search over a few hashes recognises known topics. A hash only selects a candidate: every row is
compared with its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reput.engine import kernel
from reput.record.text.javatext import java_text
from reput.record.text.textmatrix import rows_by_width

if TYPE_CHECKING:
    import numpy.typing as npt

_NAMES_MAX = 1 << 16  # an attacker's log may have a new topic in every record; then start over
_NAMES_SIZE_MAX = 1 << 24  # bytes of all names; likewise
_INDEXED_SIZE_MAX = 256  # bytes; no writer makes longer names, and rows of the index are as wide
_LEARNED_FIRST = 64  # rows
_FEW = 16  # rows that are faster looked up by their bytes than hashed
_MULTIPLIERS = np.array(
    [
        (0x9E3779B97F4A7C15 * (2 * index + 1) | 1) & (2**64 - 1)
        for index in range(_INDEXED_SIZE_MAX // 8)
    ],
    np.uint64,
)


class TopicDictionary:
    """Names seen so far, in order of appearance; a topic's code is its index."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.names: list[str] = []
        self._names_size = 0
        self._code_of: dict[bytes, int] = {}
        self._hashes = np.zeros(0, np.uint64)  # sorted
        self._codes = np.zeros(0, np.int32)  # of the names in the order of `_hashes`
        self._words = np.zeros((0, 0), np.uint64)  # padded names in the order of `_hashes`

    def encode(
        self,
        window: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int32]:
        """Return ``(n,)`` int32 codes of the names ``window[start : start + size]``."""
        if len(self.names) > _NAMES_MAX or self._names_size > _NAMES_SIZE_MAX:
            self._clear()
        codes = np.full(len(starts), -1, np.int32)
        if len(starts) <= _FEW:
            self._learn(window, starts, sizes, codes, np.arange(len(starts)))
            return codes
        self._recognise_rows(window, starts, sizes, codes)
        unknown = np.flatnonzero(codes < 0)
        if len(unknown) > _LEARNED_FIRST:
            # Topics are few: after the first rows are learned, most other rows are recognised.
            self._learn(window, starts, sizes, codes, unknown[:_LEARNED_FIRST])
            rest = unknown[_LEARNED_FIRST:]
            rest_codes = codes[rest]
            self._recognise_rows(window, starts[rest], sizes[rest], rest_codes)
            codes[rest] = rest_codes
            unknown = rest[rest_codes < 0]
        if len(unknown):
            self._learn(window, starts, sizes, codes, unknown)
        return codes

    def _recognise_rows(
        self,
        window: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int32],
    ) -> None:
        indexed = np.where(sizes <= _INDEXED_SIZE_MAX, sizes, 0)
        for rows, matrix in rows_by_width(window, starts, indexed):
            within = (
                np.arange(matrix.shape[1], dtype=np.int16) < sizes[rows].astype(np.int16)[:, None]
            )
            matrix *= within  # zero the bytes after a name
            codes[rows] = self._recognise(matrix.view(np.uint64))

    def _recognise(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        unknown = np.full(len(words), -1, np.int32)
        if len(self._hashes) == 0:
            return unknown
        place = np.searchsorted(self._hashes, _hash(words))
        place[place == len(self._hashes)] = 0
        shared = min(words.shape[1], self._words.shape[1])
        candidates = self._words[place]
        # Column by column: names are a few words long, and numpy reduces short rows slowly.
        same = np.ones(len(words), np.bool_)
        for column in range(shared):
            same &= candidates[:, column] == words[:, column]
        for column in range(shared, candidates.shape[1]):
            same &= candidates[:, column] == 0
        for column in range(shared, words.shape[1]):
            same &= words[:, column] == 0
        return np.where(same, self._codes[place], unknown)

    def _learn(
        self,
        window: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        codes: npt.NDArray[np.int32],
        rows: npt.NDArray[np.int64],
    ) -> None:
        # Row by row is enough: a topic is new once in a table's life, unless hashes collide.
        learned = len(self.names)
        for row in rows.tolist():
            name = window[starts[row] : starts[row] + max(int(sizes[row]), 0)].tobytes()
            code = self._code_of.get(name)
            if code is None:
                code = self._code_of[name] = len(self.names)
                self.names.append(java_text(name))
                self._names_size += len(name)
            codes[row] = code
        if len(self.names) > learned:
            self._index()

    def _index(self) -> None:
        names = [name for name in self._code_of if len(name) <= _INDEXED_SIZE_MAX]
        if not names:
            return
        width = max(max(map(len, names)), 1)
        width += -width % 8
        joined = b"".join(name.ljust(width, b"\0") for name in names)
        words = np.frombuffer(joined, np.uint64).reshape(len(names), width // 8)
        hashes = _hash(words)
        order = np.argsort(hashes, kind="stable")
        codes = np.array([self._code_of[name] for name in names], np.int32)
        self._hashes, self._codes, self._words = hashes[order], codes[order], words[order]


@kernel
def topic_table() -> TopicDictionary:
    """An empty table; also that of another engine has `TopicDictionary.encode` and ``names``."""
    return TopicDictionary()


def _hash(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    # Words of zero add nothing, so padding to any width gives the same hash.
    total = np.zeros(len(words), np.uint64)
    for column in range(words.shape[1]):
        mixed = words[:, column] * _MULTIPLIERS[column]
        mixed ^= mixed >> np.uint64(29)
        total += mixed
    return total
