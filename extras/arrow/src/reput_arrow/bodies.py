"""Bodies as an Arrow column: unpacked where a producer compressed them, or as stored.

Batches without compressed bodies, nearly all, are copied without a look at single rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.errors import CodecNotFoundError, UnpackError
from reput.record import unpack_body
from reput.record.layout import COMPRESSED, COMPRESSION_MASK
from reput_arrow.textarrays import binaries

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

UNPACKED_TOTAL_MAX: Final = 1 << 30
"""Bytes of all unpacked bodies of one batch; an Arrow column of bytes ends at twice that."""

_BITS: Final = COMPRESSED | COMPRESSION_MASK


class Bodies:
    """The bodies of a batch, and the system flags that describe them.

    Args:
        batch: the records.
        raw: whether bodies stay as stored.
    """

    def __init__(self, batch: DispatchBatch, *, raw: bool) -> None:
        self._batch = batch
        self._raw = raw

    @cached_property
    def _unpacked(self) -> dict[int, bytes]:
        """Return unpacked bodies by row; a body that is not what its flag says is not among them.

        Raises:
            CodecNotFoundError: a library is missing.
            UnpackError: the bodies of the batch are larger than `UNPACKED_TOTAL_MAX`.
        """
        if self._raw:
            return {}
        batch, found, left = self._batch, {}, UNPACKED_TOTAL_MAX
        flags, column = batch.sys_flag, batch.body
        for row in np.flatnonzero(flags & COMPRESSED).tolist():
            start = int(column.starts[row])
            body = column.window[start : start + max(int(column.sizes[row]), 0)].tobytes()
            try:
                found[row] = unpack_body(body, int(flags[row]))
            except CodecNotFoundError:
                raise
            except UnpackError:
                continue  # its flag stays, which tells such a row from an unpacked one
            left -= len(found[row])
            if left < 0:
                reason = (
                    f"the bodies of one batch have more than {UNPACKED_TOTAL_MAX} bytes when "
                    "unpacked; convert parts of the batch (batch[i:j]), or keep bodies as stored "
                    "(raw=True)"
                )
                raise UnpackError("any algorithm", reason)
        return found

    def column(self) -> pa.BinaryArray:
        """Return the bodies."""
        stored = binaries(self._batch.body, self._batch.start)
        if not self._unpacked:
            return stored
        values = pa.array(self._unpacked.values(), pa.binary())
        return pc.replace_with_mask(stored, pa.array(self._is_unpacked()), values)

    def sys_flag(self) -> npt.NDArray[np.int32]:
        """Return the system flags, ``(n,)`` int32; those of unpacked bodies name no compression."""
        flags = self._batch.sys_flag
        if not self._unpacked:
            return flags.copy()
        return np.where(self._is_unpacked(), flags & ~np.int32(_BITS), flags)

    def _is_unpacked(self) -> npt.NDArray[np.bool_]:
        rows = np.zeros(len(self._batch), np.bool_)
        rows[list(self._unpacked)] = True
        return rows
