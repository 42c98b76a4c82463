"""Compares the last record of a closed log with the checksum that its writer has left of it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reput.errors import UnsafePathError
from reput.record import Corruption, CorruptionKind

if TYPE_CHECKING:
    from reput.log import Damage, LogReader
    from reput_tools.doctor.repair.fieldrepair import FieldRepair
    from reput_tools.doctor.repair.recordsearch import RecordSearch
    from reput_tools.offline import Traces


def changed_last_record(
    traces: Traces, log: LogReader, found: RecordSearch, mends: Iterable[FieldRepair]
) -> Damage | None:
    """Return the last record if its bytes are not the written ones; None if they are.

    Also None if the store was not closed by reput, or with a log that ended elsewhere.

    Args:
        traces: the store.
        log: its log.
        found: the record that it holds.
        mends: the repairs in it; with these the record may be the original.
    """
    try:
        closed = traces.closed
    except UnsafePathError:
        raise
    except OSError:
        return None
    start, end = found.last_record_offset, found.end_offset
    if (
        closed is None
        or start < 0
        or (closed.record_offset, closed.physical_offset) != (start, end)
    ):
        return None
    record = bytearray(log.files.read(start, end - start))
    for mend in mends:
        if mend.physical_offset == start:
            record[mend.position : mend.position + len(mend.new)] = mend.new
    if zlib.crc32(record) == closed.fingerprint:
        return None
    detail = "its bytes are not the bytes that were written"
    finding = Corruption(start, CorruptionKind.RECORD_CRC, detail)
    return log.finder().damage(finding, end, found.last_store_timestamp)
