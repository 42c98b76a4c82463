"""Find records that are superseded by a later one with the same key: hash the keys, sort in parts.

Keys are told apart by 128 bits of a strongly universal hash (multilinear hashing) with new random
coefficients for every run. For any two different keys, even chosen by an attacker, the chance that
one run confuses them is 2**-128; for ten million keys the chance of any confusion is below
10**-24. A fixed hash has no such bound against keys that were made to collide, as is possible with
the MD5 of RocketMQ's map. The hash is on no disk, so that nothing depends on which one it is.

Rows are numbered as they come. They are split by the first bits of their hash into parts, as many
as needed for one part to fit into the memory allowed; with more than one part, parts go to disk.
Rows are written sorted by hash, and only the last row of each key: so a key that comes often does
not fill its part, and sorting the part again is quick. In each part all rows of a key but the last
are superseded. One byte per row stays in memory.

Source: Lemire and Kaser, "Strongly universal string hashing is fast" (2014), for the hash.
"""

from __future__ import annotations

import hashlib
import itertools
import secrets
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record import rows_by_width

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk
    from reput.record import TextColumn

ROW_DTYPE: Final = np.dtype([("high", "<u8"), ("low", "<u8"), ("number", "<i8")])
SORT_FACTOR: Final = 3  # bytes that sorting takes for each byte of rows, at most
PARTS_MAX: Final = 4096
_WORD: Final = 4  # bytes of a key that are hashed at a time
_LANES: Final = 4  # hashes of 32 bits
_FIRST_WORD: Final = 3  # coefficients before: the constant, the size's, the queue's
SEED_SIZE: Final = 32


class KeyHash:
    """Computes a 128-bit hash of every key, with coefficients of its own."""

    def __init__(self, seed: bytes | None = None) -> None:
        """Draw the coefficients.

        Args:
            seed: source of the coefficients, so it must be random: the same in all processes of one
                run, and different in any other run. Drawn here if None.
        """
        self._seed = secrets.token_bytes(SEED_SIZE) if seed is None else seed
        self._coefficients = np.zeros((0, _LANES), np.uint64)

    def __call__(
        self, keys: TextColumn, queue: int = 0
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Return the two ``(n,)`` halves of the hash of every key; no key hashes as an empty one.

        Args:
            keys: the keys.
            queue: 32-bit number of the keys' queue; equal keys of different queues get different
                hashes.
        """
        count = len(keys)
        lanes = np.zeros((_LANES, count), np.uint64)
        sizes = np.maximum(keys.sizes, 0)
        self._grow(_FIRST_WORD + int(sizes.max(initial=0)) // _WORD + 1)
        constant, of_size, of_queue = self._coefficients[:_FIRST_WORD]
        constant = constant + of_queue * np.uint64(queue)
        for lane in range(_LANES):
            lanes[lane] = constant[lane] + of_size[lane] * sizes.astype(np.uint64)
        for rows, matrix in rows_by_width(keys.window, keys.starts, sizes):
            self._add_words(lanes, rows, matrix, sizes[rows])
        top = lanes >> np.uint64(32)
        return top[0] << np.uint64(32) | top[1], top[2] << np.uint64(32) | top[3]

    def _add_words(
        self,
        lanes: npt.NDArray[np.uint64],
        rows: npt.NDArray[np.int64],
        matrix: npt.NDArray[np.uint8],
        sizes: npt.NDArray[np.int64],
    ) -> None:
        shortest, longest = int(sizes.min()), int(sizes.max())
        words = np.ascontiguousarray(matrix.view(np.uint32).T)
        some = slice(None) if len(rows) == lanes.shape[1] else rows
        sums = lanes[:, some]
        for number in range(-(-longest // _WORD)):
            word = words[number]
            left = sizes - number * _WORD
            if shortest < (number + 1) * _WORD:
                # Clear bytes after the end of the key, in its last word or later ones.
                word = word & _MASKS[np.clip(left, 0, _WORD)]
            wide = word.astype(np.uint64)
            for lane in range(_LANES):
                sums[lane] += self._coefficients[_FIRST_WORD + number, lane] * wide
        if not isinstance(some, slice):
            lanes[:, some] = sums

    def _grow(self, count: int) -> None:
        if count > len(self._coefficients):
            # With one seed, a longer list of coefficients begins with the shorter one.
            data = hashlib.shake_256(self._seed).digest(count * _LANES * 8)
            self._coefficients = np.frombuffer(data, "<u8").reshape(-1, _LANES).astype(np.uint64)


# Masks that keep the first bytes of a word in memory; the index is the number of bytes.
_MASKS: Final = np.frombuffer(
    b"".join(b"\xff" * count + b"\0" * (_WORD - count) for count in range(_WORD + 1)), np.uint32
)


class SupersededRows:
    """Collects the hashes of rows, then tells which rows have a successor."""

    def __init__(self, count: int, memory: int, disk: Disk, scratch: str) -> None:
        """Prepare for the rows.

        Args:
            count: number of rows, at most.
            memory: bytes that sorting may take; further rows go to disk temporarily.
            disk: the disk for these rows.
            scratch: path of their files, without a number at the end.
        """
        self.superseded = np.zeros(count, bool)
        """``(count,)``: whether a later row has the same key; valid when every part is finished."""
        self._disk = disk
        self._scratch = scratch
        needed = count * ROW_DTYPE.itemsize * SORT_FACTOR
        parts = min(-(-needed // max(memory, 1)), PARTS_MAX)
        self._bits = max(int(parts - 1).bit_length(), 0)
        self._limit = max(memory // SORT_FACTOR, ROW_DTYPE.itemsize)
        self._pending: list[npt.NDArray[np.void]] = []
        self._pending_count = 0
        self._sizes = [0] * (1 << self._bits)
        self._number = 0

    @property
    def spills(self) -> bool:
        """Whether rows go to disk temporarily."""
        return self._bits > 0

    @property
    def part_count(self) -> int:
        """Number of parts for `finish`, each of which is sorted alone."""
        return 1 << self._bits

    def add(self, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> None:
        """Add the hashes of the next rows."""
        rows = np.empty(len(high), ROW_DTYPE)
        rows["high"], rows["low"] = high, low
        rows["number"] = np.arange(self._number, self._number + len(high))
        self._number += len(high)
        self._pending.append(rows)
        self._pending_count += len(rows)
        if self.spills and self._pending_count * ROW_DTYPE.itemsize >= self._limit:
            self._spill()

    def _spill(self) -> None:
        rows = np.concatenate(self._pending)
        self._pending, self._pending_count = [], 0
        order, is_followed = by_key(rows)
        self.superseded[rows["number"][order[is_followed]]] = True
        rows = rows[order[~is_followed]]
        starts = part_starts(rows["high"], self._bits).tolist()
        for number, (begin, stop) in enumerate(itertools.pairwise(starts)):
            if stop > begin:
                self._append(number, rows[begin:stop].tobytes())

    def _append(self, part: int, data: bytes) -> None:
        descriptor = self._disk.open(f"{self._scratch}{part}", create=True)
        try:
            self._disk.write(descriptor, data, self._sizes[part])
        finally:
            self._disk.close(descriptor)
        self._sizes[part] += len(data)

    def finish(self, part: int) -> None:
        """Find the superseded rows of one part."""
        if not self.spills:
            rows = np.concatenate(self._pending) if self._pending else np.zeros(0, ROW_DTYPE)
            self._pending = []
            self._mark(rows)
            return
        if self._pending:
            self._spill()
        size, path = self._sizes[part], f"{self._scratch}{part}"
        if size:
            data = self._disk.read_file(path, size)
            if len(data) != size:
                raise OSError(f"{path}: {len(data)} bytes read, {size} were written")
            self._mark(np.frombuffer(data, ROW_DTYPE))
            self._disk.remove(path)

    def _mark(self, rows: npt.NDArray[np.void]) -> None:
        order, is_followed = by_key(rows)
        self.superseded[rows["number"][order[is_followed]]] = True


def by_key(
    rows: npt.NDArray[np.void],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the order of rows by hash, and which rows, in that order, have a successor.

    Args:
        rows: ``(n,)`` of `ROW_DTYPE`; of equal keys the later ones come after the others.

    Returns:
        ``(n,)`` numbers into ``rows``, and ``(n,)``: whether the next row has the same key.
    """
    # Stable, so that of equal keys the last one stays the last; and quick where stretches of the
    # rows are in order already.
    order = np.argsort(rows["high"], kind="stable")
    high, low = rows["high"][order], rows["low"][order]
    is_twin = high[1:] == high[:-1]
    if (is_twin & (low[1:] != low[:-1])).any():
        # Different keys with the same first half: practically never, and told apart here.
        order = np.lexsort((rows["low"], rows["high"]))
        high, low = rows["high"][order], rows["low"][order]
        is_twin = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    is_followed = np.zeros(len(rows), bool)
    is_followed[:-1] = is_twin
    return order, is_followed


def part_starts(high: npt.NDArray[np.uint64], bits: int) -> npt.NDArray[np.int64]:
    """Return where each part begins in rows ordered by their hashes.

    Args:
        high: ``(n,)`` ascending.
        bits: number of leading bits that tell parts apart; at most 32.

    Returns:
        ``(2**bits + 1,)``; the last is ``n``.
    """
    borders = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return np.concatenate([[0], np.searchsorted(high, borders), [len(high)]]).astype(np.int64)
