"""Files of sums: a run of 16-byte units, one for each record of one file of the log, big-endian.

    0          4      8     12      16
    +----------+------+-----+-------+
    | position | size | crc | check |
    +----------+------+-----+-------+

The sums of the log's file ``commitlog/<name>`` are in ``integrity/sums/<name>``, in the order of
the log. A file holds as many units as the log's file has records; it has no header and no unused
space. The field ``check`` protects the unit itself, and is bound to the file's name and to the
version of the format: a unit with a changed bit, or of another file, is not sound.

``integrity/origins`` lists the parts of the log whose sums were made later than the records:

    0        8         12      16
    +--------+---------+-------+
    | magic  | count   | crc   |      then ``count`` rows:
    +--------+---------+-------+
    0        8         16      24
    +--------+---------+-------+
    | start  | end     | made  |
    +--------+---------+-------+

Sums outside of these parts were made as the records were written. Without a sound file nothing is
known of any sum's origin.

``integrity/disputes``, if it exists, lists records whose sums a rebuild has replaced although they
denied what is in the log now. The sum here counts, not the one in ``sums``. The checksum of the
header is that of all that follows it:

    0        8         12      16        24
    +--------+---------+-------+---------+
    | magic  | count   | crc   | written |      then ``count`` rows:
    +--------+---------+-------+---------+
    0        8         12      16        24
    +--------+---------+-------+---------+
    | start  | size    | crc   | made    |
    +--------+---------+-------+---------+

Source: formats of this plugin, version 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

DIRECTORY: Final = "integrity"
SUMS_NAME: Final = "sums"
ORIGINS_NAME: Final = "origins"
DISPUTES_NAME: Final = "disputes"

UNIT_DTYPE: Final = np.dtype(
    [
        ("position", ">u4"),  # bytes, of the record in its file of the log
        ("size", ">u4"),  # bytes, whole record; never 0
        ("crc", ">u4"),  # CRC-32 (zlib's) of all bytes of the record
        ("check", ">u4"),  # `unit_check` of the other fields
    ]
)
ORIGINS_MAGIC: Final = b"reputor1"
ORIGINS_HEADER_DTYPE: Final = np.dtype(
    [
        ("magic", "S8"),
        ("count", ">u4"),  # of rows
        ("crc", ">u4"),  # CRC-32 of the rows
    ]
)
ORIGIN_DTYPE: Final = np.dtype(
    [
        ("start", ">i8"),  # physical offset
        ("end", ">i8"),  # physical offset, after the part
        ("made", ">i8"),  # ms, when the sums were made
    ]
)

DISPUTES_MAGIC: Final = b"reputdi1"
DISPUTES_HEADER_DTYPE: Final = np.dtype(
    [
        ("magic", "S8"),
        ("count", ">u4"),  # of rows
        ("crc", ">u4"),  # CRC-32 of everything that follows
        ("written", ">i8"),  # ms, when the file was written
    ]
)
DISPUTE_DTYPE: Final = np.dtype(
    [
        ("start", ">i8"),  # physical offset of the record
        ("size", ">u4"),  # bytes, whole record
        ("crc", ">u4"),  # CRC-32 of the bytes that the record had
        ("made", ">i8"),  # ms, when this sum was made; 0 as it was written, -1 not known
    ]
)

_VERSION: Final = 1
_MASK: Final = 0xFFFFFFFF


def unit_check(
    base: int,
    position: npt.NDArray[np.uint32],
    size: npt.NDArray[np.uint32],
    crc: npt.NDArray[np.uint32],
) -> npt.NDArray[np.uint32]:
    """Return the ``(n,)`` uint32 check of units; all arithmetic is modulo 2**32.

    Every factor is odd and every step can be undone, so that a change of one field, whichever its
    bits, always changes the check.

    Args:
        base: physical offset at which the log's file begins.
        position: ``(n,)`` uint32, as in the unit; likewise the next two.
        size: ``(n,)`` uint32.
        crc: ``(n,)`` uint32.
    """
    seed = (_VERSION * 0x27D4EB2F + (base & _MASK) * 0x9E3779B1 + (base >> 32) * 0xC2B2AE3D) & _MASK
    mixed = position * np.uint32(0x85EBCA77)
    mixed += size * np.uint32(0x165667B1)
    mixed += crc * np.uint32(0xCC9E2D51)
    mixed += np.uint32(seed)
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x7FEB352D)
    mixed ^= mixed >> np.uint32(15)
    return mixed
