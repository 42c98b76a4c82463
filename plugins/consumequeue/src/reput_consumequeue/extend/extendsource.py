"""Take the data for extend units from a batch, and encode the units."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_consumequeue.extend.layout import EXTEND_DTYPE, EXTEND_HEAD_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch

BIT_MAP = "bit_map"
"""Column of a batch: ``(n,)`` items of fixed size, each a bit map. Any plugin may compute it."""
BIT_MAP_SIZE = "bit_map_size"
"""Column of a batch: ``(n,)`` bytes of each bit map that count, 0 for none; all if missing."""


@attrs.frozen(eq=False)
class ExtendSource:
    """The data of a batch for extend units."""

    physical_offsets: npt.NDArray[np.int64]
    """``(n,)``, ascending."""
    store_timestamps: npt.NDArray[np.int64]
    bit_maps: npt.NDArray[np.uint8]
    """``(n, w)``."""
    bit_map_sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes of each row that count."""

    @classmethod
    def of(cls, batch: DispatchBatch) -> ExtendSource:
        """Take the columns of a batch, with bit maps if a plugin computed them."""
        count = len(batch)
        try:
            items = np.ascontiguousarray(batch.column(BIT_MAP))
        except KeyError:
            maps, sizes = np.zeros((count, 0), np.uint8), np.zeros(count, np.int64)
        else:
            maps = items.view(np.uint8).reshape(count, -1)
            try:
                stated = batch.column(BIT_MAP_SIZE).astype(np.int64)
                sizes = np.clip(stated, 0, maps.shape[1])
            except KeyError:
                sizes = np.full(count, maps.shape[1], np.int64)
        return cls(batch.physical_offset, batch.store_timestamp, maps, sizes)

    def unit_sizes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return ``(n,)`` sizes in bytes of the extend units of some rows."""
        return EXTEND_HEAD_SIZE + self.bit_map_sizes[rows]

    def encoded(
        self,
        rows: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        tags_codes: npt.NDArray[np.int64],
    ) -> bytes:
        """Encode the extend units of some messages, one after the other.

        Args:
            rows: ``(n,)`` rows of the batch.
            sizes: ``(n,)`` bytes of each unit.
            tags_codes: ``(n,)``.
        """
        heads = np.zeros(len(rows), EXTEND_DTYPE)
        heads["size"] = sizes
        heads["tags_code"] = tags_codes
        heads["store_timestamp"] = self.store_timestamps[rows]
        heads["bit_map_size"] = sizes - EXTEND_HEAD_SIZE
        starts = np.cumsum(sizes) - sizes
        data = np.zeros(int(sizes.sum()), np.uint8)
        head_bytes = heads.view(np.uint8).reshape(len(rows), EXTEND_HEAD_SIZE)
        data[starts[:, None] + np.arange(EXTEND_HEAD_SIZE)] = head_bytes
        for size in np.unique(sizes).tolist():
            count = size - EXTEND_HEAD_SIZE
            if count:
                alike = np.flatnonzero(sizes == size)
                places = starts[alike][:, None] + EXTEND_HEAD_SIZE + np.arange(count)
                data[places] = self.bit_maps[rows[alike], :count]
        return data.tobytes()
