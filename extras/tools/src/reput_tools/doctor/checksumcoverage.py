"""Which bytes of a log a check has seen a checksum of, and the sentence that says it.

Each record has a checksum of its body. Only stores with ``record_crc`` (RocketMQ's
``enabledAppendPropCRC``) also have one of all bytes of a record, and the plugin ``integrity`` keeps
sums of its own. Without either, a change of a time, a host, a flag, a topic or a property can go
unnoticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record.layout import CRC_PROPERTY_SIZE, PROPERTY_CRC

if TYPE_CHECKING:
    from reput.record import DispatchBatch

SUMS: Final = "integrity"
"""The plugin that keeps a sum of each record's bytes."""
_NAME: Final = np.frombuffer(PROPERTY_CRC.encode() + b"\x01", np.uint8)


def checksummed_count(batch: DispatchBatch) -> int:
    """Return how many records of ``batch`` end in a checksum of all of their bytes.

    They match it if the batch was read with ``check_crc=True``.
    """
    rows = np.flatnonzero(batch.properties_text.sizes >= CRC_PROPERTY_SIZE)
    if not len(rows):
        return 0
    starts = batch.start[rows] + batch.size[rows] - CRC_PROPERTY_SIZE
    names = batch.window[starts[:, np.newaxis] + np.arange(len(_NAME))]
    return int(np.count_nonzero((names == _NAME).all(axis=1)))


def coverage_of(message_count: int, checksummed: int, *, has_sums: bool) -> str:
    """Return what no checksum covers, as one sentence for people.

    Args:
        message_count: records that were read.
        checksummed: those of them with a checksum of all of their bytes.
        has_sums: whether the sums of the plugin ``integrity`` were compared and cover all of them.
    """
    config = "No checksum covers the files in config/."
    if not message_count:
        return f"The log has no record whose checksum could be checked. {config}"
    if has_sums or checksummed >= message_count:
        what = "Sums of the plugin integrity cover" if has_sums else "Checksums cover"
        return f"{what} every byte of every record. {config}"
    left = message_count - checksummed
    records = "any record" if left == message_count else f"{left:,} of {message_count:,} records"
    return (
        f"No checksum covers the header, topic and properties of {records}, or the files in "
        "config/: a change there can go unnoticed."
    )
