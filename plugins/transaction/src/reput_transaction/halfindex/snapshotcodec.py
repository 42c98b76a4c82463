"""Encode a `HalfIndex` as bytes, and decode it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reput.errors import CorruptFileError
from reput_transaction.halfindex.halfrows import HalfRow
from reput_transaction.layout import (
    ENDED,
    HEADER_DTYPE,
    MAGIC,
    OP_DTYPE,
    OPEN,
    ROLLED_BACK,
    ROW_DTYPE,
    SUPERSEDED,
    UNDECIDED,
    VERSION,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_transaction.halfindex.halfindex import HalfIndex


def encode_snapshot(index: HalfIndex, resume_offset: int) -> bytes:
    """Return the state of ``index`` before the record at ``resume_offset``."""
    index.ops.drop_below(index.done_below)
    kept = list(index.rows.by_place.values())
    numbers = {name: number for number, name in enumerate(sorted(index.rows.groups))}
    rows = np.array(
        [
            (
                row.queue_offset,
                row.physical_offset,
                row.born_timestamp,
                row.ended_to,
                -1 if row.newer is None else row.newer.physical_offset,
                row.key,
                row.check_times,
                row.state,
                -1 if row.group is None else numbers[row.group.name],
                UNDECIDED if row.group is None else row.group.decision,
            )
            for row in kept
        ],
        ROW_DTYPE,
    )
    # The last op entry holds the ends of both queues, and names no message.
    ends = (index.ops.next_offset, index.next_half_offset)
    ops = np.array([*index.ops.entries, ends], OP_DTYPE)
    names = b"".join(name.encode("utf-8", "surrogatepass") + b"\0" for name in numbers)
    header = np.zeros(1, HEADER_DTYPE)
    header["magic"], header["version"] = MAGIC, VERSION
    header["resume_offset"], header["name_size"] = resume_offset, len(names)
    header["row_count"], header["op_count"] = len(rows), len(ops)
    covered = header.tobytes()[4:] + rows.tobytes() + ops.tobytes() + names
    return zlib.crc32(covered).to_bytes(4, "big") + covered


class _Parts(NamedTuple):
    resume_offset: int
    rows: npt.NDArray[np.void]
    ops: npt.NDArray[np.void]
    names: list[bytes]


def check_snapshot(data: bytes, path: str) -> int:
    """Return the physical offset at which to go on, as `decode_snapshot` does, without an index.

    Raises:
        CorruptFileError: the bytes are not a snapshot.
    """
    return _parts(data, path).resume_offset


def decode_snapshot(data: bytes, path: str, index: HalfIndex) -> int:
    """Fill the empty ``index`` from a snapshot.

    Returns:
        The physical offset at which to go on.

    Raises:
        CorruptFileError: the bytes are not a snapshot.
    """
    parts = _parts(data, path)
    _fill(index, parts.rows, [name.decode("utf-8", "surrogatepass") for name in parts.names])
    *entries, (index.ops.next_offset, index.next_half_offset) = parts.ops.tolist()
    index.ops.entries = list(map(tuple, entries))
    return parts.resume_offset


def _parts(data: bytes, path: str) -> _Parts:
    if len(data) < HEADER_DTYPE.itemsize:
        raise CorruptFileError(path, 0, f"{len(data)} bytes are too few for the header")
    header = np.frombuffer(data, HEADER_DTYPE, 1)[0]
    if header["magic"] != MAGIC or header["version"] != VERSION:
        raise CorruptFileError(path, 4, f"{MAGIC.decode()} version {VERSION} expected")
    # The checksum covers every count below; they are checked all the same before memory is taken.
    row_count, op_count, name_size = (
        int(header[name]) for name in ("row_count", "op_count", "name_size")
    )
    body_size = row_count * ROW_DTYPE.itemsize + op_count * OP_DTYPE.itemsize + name_size
    is_possible = min(row_count, name_size) >= 0 and op_count >= 1
    if zlib.crc32(data[4:]) != header["crc"] or not is_possible:
        raise CorruptFileError(path, 0, "checksum and bytes differ")
    if len(data) != HEADER_DTYPE.itemsize + body_size:
        found, expected = len(data), HEADER_DTYPE.itemsize + body_size
        raise CorruptFileError(path, 0, f"{found} bytes, and the header says {expected}")
    rows = np.frombuffer(data, ROW_DTYPE, row_count, HEADER_DTYPE.itemsize)
    ops_at = HEADER_DTYPE.itemsize + rows.nbytes
    ops = np.frombuffer(data, OP_DTYPE, op_count, ops_at)
    names = data[ops_at + ops.nbytes :].split(b"\0")[:-1]
    _check_rows(rows, len(names), path)
    return _Parts(int(header["resume_offset"]), rows, ops, names)


def _check_rows(rows: npt.NDArray[np.void], name_count: int, path: str) -> None:
    is_known = np.isin(rows["state"], (OPEN, ENDED, SUPERSEDED))
    is_known &= (rows["decision"] >= UNDECIDED) & (rows["decision"] <= ROLLED_BACK)
    is_known &= rows["group"] < name_count
    if not is_known.all():
        queue_offset = rows["queue_offset"][~is_known][0]
        raise CorruptFileError(path, 0, f"the row of queue offset {queue_offset} is none")


def _fill(index: HalfIndex, rows: npt.NDArray[np.void], names: list[str]) -> None:
    newer_of: list[tuple[HalfRow, int]] = []
    for fields in rows.tolist():
        queue_offset, offset, born, ended_to, newer, key, checks, state, group, decision = fields
        row = HalfRow(queue_offset, offset, born, checks, key)
        index.rows.add(row, names[group] if group >= 0 else None)
        if row.group is not None:
            index.rows.decide(row.group, decision)
        if state != OPEN:
            index.rows.set_state(row, state, ended_to)
        if newer >= 0:
            newer_of.append((row, newer))
    for row, newer in newer_of:
        row.newer = index.rows.by_place.get(newer)
        if row.newer is not None:
            row.newer.older = row
