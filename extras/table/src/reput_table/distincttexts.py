"""Which different texts a column of texts has, without a loop over its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record import rows_by_width

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import TextColumn

_ODD: Final = 0x9E3779B97F4A7C15


def distinct_texts(column: TextColumn) -> tuple[npt.NDArray[np.int64], list[bytes | None]]:
    """Return ``(n,)`` int64 codes, and the text of each code; None stands for a missing text.

    A hash only proposes that two texts are equal; every row is compared with the text of its code.
    """
    sizes = column.sizes
    codes = np.zeros(len(sizes), np.int64)
    texts: list[bytes | None] = []
    for rows, value in ((sizes < 0, None), (sizes == 0, b"")):
        if rows.any():
            codes[rows] = len(texts)
            texts.append(value)
    for rows, matrix in rows_by_width(column.window, column.starts, sizes):
        width = matrix.shape[1]
        matrix[np.arange(width) >= sizes[rows][:, None]] = 0
        first, inverse = _alike(matrix.view(np.uint64), sizes[rows])
        codes[rows] = inverse + len(texts)
        texts += [
            matrix[row, :size].tobytes()
            for row, size in zip(first.tolist(), sizes[rows][first].tolist(), strict=True)
        ]
    return codes, texts


def _alike(
    words: npt.NDArray[np.uint64], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first row of each text, and the number of each row's text."""
    factors = (
        np.arange(words.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    ) * np.uint64(_ODD)
    hashes = (words * factors).sum(axis=1, dtype=np.uint64) ^ (
        sizes.astype(np.uint64) * np.uint64(_ODD >> 3)
    )
    # The low bits of a product depend on few bits of a word: fold the high ones in.
    hashes ^= hashes >> np.uint64(29)
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    like = first[inverse]
    if (sizes[like] == sizes).all() and (words[like] == words).all():
        return first, inverse
    exact = np.column_stack([words, sizes.astype(np.uint64)])
    _, first, inverse = np.unique(exact, axis=0, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
