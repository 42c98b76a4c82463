"""Rows on their way from a batch of Arrow to the bytes of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reput.record import Columns
from reput.record.layout import HEADER_DTYPE, HOST_SIZE
from reput_arrow import columns_of, hosts_of, times_of
from reput_arrow.addedcolumns import ADDED_COLUMNS

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_arrow.logwriter.staging.writetasks import WritePlan


@attrs.frozen(eq=False)
class Rows:
    """Encoded records of one file, one after another."""

    data: bytes
    sizes: npt.NDArray[np.int64]
    """``(n,)`` bytes."""
    groups: npt.NDArray[np.int64]
    """``(n,)`` number of each one's queue."""
    ordinals: npt.NDArray[np.int64]
    """``(n,)``; see `reput_arrow.logwriter.staging.sidecarfiles.SIDECAR_DTYPE`."""


@attrs.frozen(eq=False)
class Part:
    """Rows of a batch."""

    columns: Columns
    store_host: bytes
    """Packed; of all rows, or of the first one."""
    store_hosts: list[bytes] | None
    """One for each row, where they differ."""
    born_hosts: list[bytes] | None
    """Packed, one for each row; None: each one's store host."""
    store_timestamps: npt.NDArray[np.int64] | None
    """``(n,)`` ms; None: the write's."""

    @property
    def has_v6(self) -> bool:
        """Whether a row has a host that makes its header longer."""
        hosts = {self.store_host, *(self.store_hosts or ()), *(self.born_hosts or ())}
        return any(len(host) != HOST_SIZE for host in hosts)

    def with_times(self, data: bytes, starts: npt.NDArray[np.int64], rows: slice) -> bytes:
        """Return records with the store times of their rows, where those times are kept."""
        if self.store_timestamps is None:
            return data
        window = np.frombuffer(bytearray(data), np.uint8)
        field = place_of("store_timestamp")
        scatter(window, starts + field, self.store_timestamps[rows].astype(">i8"))
        return window.tobytes()


def place_of(field: str) -> int:
    """Return where ``field`` stands in a record; after the born host only where that is IPv4."""
    fields: Any = HEADER_DTYPE.fields
    return int(fields[field][1])


def scatter(
    window: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], values: npt.NDArray[Any]
) -> None:
    """Put the bytes of ``values``, ``(n,)``, at ``places`` of a window that may be written.

    Raises:
        IndexError: a place so near to the end that an item does not fit.
    """
    kind = np.dtype((np.void, values.dtype.itemsize))
    _at_every_byte(window, kind)[places] = np.ascontiguousarray(values).view(kind)


def gather(
    window: npt.NDArray[np.uint8], places: npt.NDArray[np.int64], kind: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return the ``(n,)`` items of ``kind`` that stand at ``places`` of a window.

    Raises:
        IndexError: a place so near to the end that an item does not fit.
    """
    return _at_every_byte(window, np.dtype((np.void, kind.itemsize)))[places].view(kind)


def _at_every_byte(window: npt.NDArray[np.uint8], kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a view with an item at every byte, each of which overlaps the next ones."""
    return np.ndarray((max(len(window) - kind.itemsize + 1, 0),), kind, window, 0, (1,))


def part_of(batch: pa.RecordBatch, plan: WritePlan) -> Part:
    """Return the rows of a batch, with what the options of the write say of them."""
    own, store_hosts = _store_hosts(batch, plan)
    columns = columns_of(batch, ADDED_COLUMNS)
    times = times_of(batch, "store_timestamp") if "store_timestamp" in plan.options.keep else None
    stored = None
    if times is not None:
        stored = times.fill_null(plan.store_timestamp).to_numpy(zero_copy_only=False)
        born = times_of(batch, "born_timestamp")
        # A birth that is not stated is the store time, here each row's own.
        births = stored if born is None else pc.coalesce(born, pa.array(stored)).to_numpy()
        columns = attrs.evolve(columns, born_timestamp=births)
    return Part(columns, own, store_hosts, _born_hosts(batch, own, store_hosts), stored)


def _store_hosts(batch: pa.RecordBatch, plan: WritePlan) -> tuple[bytes, list[bytes] | None]:
    """Return the first row's store host, and those of all rows where they differ."""
    hosts = hosts_of(batch, "store_host") if "store_host" in plan.options.keep else None
    if hosts is None or batch.num_rows == 0:
        return plan.store_host, None
    packed, codes = hosts
    found = _spread(packed, codes, plan.store_host)
    return found[0], found if codes.min() != codes.max() else None


def _born_hosts(
    batch: pa.RecordBatch, own: bytes, store_hosts: list[bytes] | None
) -> list[bytes] | None:
    hosts = hosts_of(batch, "born_host")
    if hosts is None or batch.num_rows == 0:
        return store_hosts
    packed, codes = hosts
    found = _spread(packed, codes, own)
    if store_hosts is not None:
        for row in np.flatnonzero(codes < 0).tolist():
            found[row] = store_hosts[row]
    return found


def _spread(packed: list[bytes], codes: npt.NDArray[np.int64], own: bytes) -> list[bytes]:
    known = [*packed, own]  # a code of -1 is the last one
    return list(map(known.__getitem__, codes.tolist()))
