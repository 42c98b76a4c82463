"""Rows on their way from a batch of Arrow's to the bytes of a file."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.arrow import columns_of, hosts_of, times_of
from reput.columns import Columns
from reput.layout import HEADER_DTYPE, HOST_SIZE
from reput_spark.reading.tasks import STORE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from reput_spark.writing.plan import WritePlan

__all__ = ["OTHER_COLUMNS", "Part", "Rows", "parts_of", "place_of", "scatter"]

OTHER_COLUMNS: Final = (STORE_COLUMN,)
"""Columns that a read gives, and no message has."""


@attrs.frozen(eq=False)
class Rows:
    """Encoded records of one file, one behind another."""

    data: bytes
    sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes."""
    groups: npt.NDArray[np.int64]
    """``(n,)`` number of each one's queue."""
    ordinals: npt.NDArray[np.int64]
    """``(n,)``; see `reput_spark.writing.sidecars.SIDECAR_DTYPE`."""


@attrs.frozen(eq=False)
class Part:
    """Rows of a batch with one store host."""

    columns: Columns
    store_host: bytes
    born_hosts: list[bytes] | None
    """Packed, one for each row; None: the store's."""
    store_timestamps: npt.NDArray[np.int64] | None
    """``(n,)`` ms; None: the write's."""

    @property
    def has_v6(self) -> bool:
        """Whether a row has a host that makes its header longer."""
        hosts = {self.store_host, *(self.born_hosts or ())}
        return any(len(host) != HOST_SIZE for host in hosts)

    def with_times(self, data: bytes, starts: npt.NDArray[np.int64], rows: slice) -> bytes:
        """Records with the store times of their rows, where those are kept."""
        if self.store_timestamps is None:
            return data
        window = np.frombuffer(bytearray(data), np.uint8)
        field = place_of("store_timestamp")
        scatter(window, starts + field, self.store_timestamps[rows].astype(">i8"))
        return window.tobytes()


def place_of(field: str) -> int:
    """Where a field stands in a record; those behind the born host only where that is IPv4."""
    fields: Any = HEADER_DTYPE.fields
    return int(fields[field][1])


def scatter(
    window: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], values: npt.NDArray[Any]
) -> None:
    """Put the bytes of ``values``, ``(n,)``, at ``places`` of a window that may be written.

    Raises:
        IndexError: a place so near to the end that an item does not fit.
    """
    size = values.dtype.itemsize
    kind = np.dtype((np.void, size))
    # One item at every byte, each over the next ones.
    items = np.ndarray((max(len(window) - size + 1, 0),), kind, window, 0, (1,))
    items[places] = np.ascontiguousarray(values).view(kind)


def parts_of(batch: pa.RecordBatch, plan: WritePlan) -> Iterator[Part]:
    """The rows of a batch in runs of one store host; nearly always one run."""
    hosts = hosts_of(batch, "store_host") if "store_host" in plan.options.keep else None
    if hosts is None or batch.num_rows == 0:
        yield _part(batch, plan, plan.store_host)
        return
    packed, codes = hosts
    borders = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for start, stop in itertools.pairwise(borders):
        code = int(codes[start])
        host = plan.store_host if code < 0 else packed[code]
        yield _part(batch.slice(start, stop - start), plan, host)


def _part(batch: pa.RecordBatch, plan: WritePlan, store_host: bytes) -> Part:
    columns = columns_of(batch, OTHER_COLUMNS)
    times = times_of(batch, "store_timestamp") if "store_timestamp" in plan.options.keep else None
    stored = None
    if times is not None:
        stored = times.fill_null(plan.store_timestamp).to_numpy(zero_copy_only=False)
        born = times_of(batch, "born_timestamp")
        # A birth that is not stated is the store time, here each row's own.
        births = stored if born is None else pc.coalesce(born, pa.array(stored)).to_numpy()
        columns = attrs.evolve(columns, born_timestamp=births)
    return Part(columns, store_host, _born_hosts(batch, store_host), stored)


def _born_hosts(batch: pa.RecordBatch, own: bytes) -> list[bytes] | None:
    hosts = hosts_of(batch, "born_host")
    if hosts is None or batch.num_rows == 0:
        return None
    packed, codes = hosts
    known = [*packed, own]  # a code of -1 is the last one
    return list(map(known.__getitem__, codes.tolist()))
