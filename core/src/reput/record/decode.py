"""Bytes to columns: `Decoder` turns a window of the log into a `DispatchBatch`.

The decoder checks every length before it follows it. It never raises because of the bytes: it
returns the records before the first bad one, with a `Corruption` that describes the bad one.

How record borders are found. Every position with a record's magic number is a candidate. If no body
contains the magic, each candidate's size leads to the next one, which one comparison of two columns
proves. Otherwise, and for large or few records, the decoder walks from one record to the next.

Source: RocketMQ ``CommitLog#checkMessageAndReturnSize``. Different on purpose: a record must state
its own physical offset (switch ``check_offset``), as RocketMQ accepts stale records that line up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np

from reput.engine import kernel
from reput.record.batch import Corruption, CorruptionKind, DispatchBatch, SpanRow
from reput.record.checksum import crc32, record_crc_matches
from reput.record.entries import LastEntry, size_and_magic, wrong_entry
from reput.record.layout import (
    AFTER_STORE_HOST_DTYPE,
    BLANK_MAGIC,
    BLANK_MIN_SIZE,
    BORN_HOST_POSITION,
    BORN_HOST_V6,
    CRC_PROPERTY_NAME,
    CRC_PROPERTY_SIZE,
    HEADER_DTYPE,
    HEADER_SIZE,
    HOST_EXTRA_V6,
    HOST_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
    STORE_HOST_V6,
    VALUE_END,
)
from reput.record.text.textmatrix import fixed_rows, words_at
from reput.record.text.topicdictionary import TopicDictionary, topic_table

if TYPE_CHECKING:
    import numpy.typing as npt

RECORD_SIZE_MAX = 64 * 1024 * 1024
"""A record with a larger size is corrupt (RocketMQ's default limit is 4 MiB of body)."""

_WALK_ABOVE = 600  # mean bytes of a record; below, searching for the magic is cheaper
_WALK_WITHIN = 8 << 10
"""Bytes of a window in which there are always few enough records to walk from one to the next."""
_MAGIC_BYTES = MAGIC_V1.to_bytes(4, "big")
_BE_U4 = np.dtype(">u4")
_BE_I2 = np.dtype(">i2")
_HOST_ARRIVAL = BORN_HOST_POSITION + HOST_SIZE  # store timestamp of a record with IPv4 birth


class End:
    """What follows the last record of a window."""

    WINDOW = "window"
    """The window's end, perhaps after a part of a record."""
    BLANK = "blank"
    """A blank record: the log continues in the next file."""
    EMPTY = "empty"
    """Zeros: unwritten space."""
    BAD = "bad"
    """A corruption, the batch's ``finding``."""


@attrs.frozen
class DecodeResult:
    """Result of decoding one window."""

    batch: DispatchBatch
    end: str
    """One of the words of `End`."""
    needed_size: int = 0
    """With `End.WINDOW`: size that the window must have to contain one more record, bytes."""


class _Borders(NamedTuple):
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    end_position: int


@attrs.define(eq=False)
class Decoder:
    """Decodes windows, and remembers their topics. Not thread-safe."""

    check_crc: bool = False
    """Verify every body's checksum; an empty body has none."""
    check_offset: bool = True
    """Verify that each record states its own physical offset."""
    check_record_crc: bool = False
    """Also verify the whole-record checksum of records that carry one."""
    requires_record_crc: bool = False
    """Whether a record without that checksum is damaged; together with `check_record_crc`."""
    topics: TopicDictionary = attrs.field(factory=topic_table)
    _walks: bool = False
    """Whether the last window's records were so large that a walk is cheaper than a search."""
    _last_entry: LastEntry | None = None

    def decode(
        self,
        window: npt.NDArray[np.uint8],
        base_offset: int,
        file_end: int | None = None,
        gap: int = 0,
    ) -> DecodeResult:
        """Decode the records that begin at ``window[0]``.

        Args:
            window: ``(w,)`` uint8, contiguous; the batch refers to its memory.
            base_offset: physical offset of ``window[0]``.
            file_end: physical offset at which the file ends, if known: a blank must end there, and
                a record that ends after it is corrupt.
            gap: bytes before each record, the first one included: the head of an entry of DLedger,
                which is checked; 0 without.

        Returns:
            The batch of all whole, valid records from the start of the window on.
        """
        places, header, numbers, position, reason, stated = cut_window(
            window,
            base_offset,
            self.check_offset,
            self.check_crc,
            self.check_record_crc,
            self._walks,
            gap,
        )
        whole = count = len(header)
        finding: Corruption | None = None
        if self.requires_record_crc and self.check_record_crc and count:
            row = _first_without_crc(window, places)
            if row < count:
                position, reason, count = int(places[SpanRow.START, row]) - gap, _NO_RECORD_CRC, row
        if gap and count:
            start, size = places[SpanRow.START, :count], places[SpanRow.SIZE, :count]
            row, finding, self._last_entry = wrong_entry(
                window, start, size, base_offset, self._last_entry, self.check_crc
            )
            if finding is not None:
                position, count = finding.physical_offset - base_offset, row
        if count < whole:
            places, header = places[:, :count], header[:count]
            numbers = {name: column[:count] for name, column in numbers.items()}
        if count:
            self._walks = position > _WALK_ABOVE * count
        if finding is None and reason:
            kind, detail = _FINDINGS[reason]
            finding = Corruption(base_offset + position, kind, detail.format(stated))
        if finding is not None:
            end, next_offset, needed = End.BAD, base_offset + position, 0
        else:
            end, next_offset, needed, finding = _what_follows(
                window, base_offset, position, file_end, gap
            )
            if self._last_entry is not None and end == End.BLANK:
                self._last_entry = self._last_entry._replace(end=next_offset)
        codes = self.topics.encode(window, places[SpanRow.TOPIC], places[SpanRow.TOPIC_SIZE])
        batch = DispatchBatch(
            window=window,
            base_offset=base_offset,
            places=places,
            header=header,
            topic_code=codes,
            topics=tuple(self.topics.names),
            end_offset=next_offset,
            finding=finding,
            columns=numbers,
        )
        return DecodeResult(batch, end, needed)


_LENGTH_MISMATCH, _PHYSICAL_OFFSET, _BODY_CRC, _RECORD_CRC, _NO_RECORD_CRC = range(1, 6)
_FINDINGS = {
    _LENGTH_MISMATCH: (
        CorruptionKind.LENGTH_MISMATCH,
        "lengths inside it contradict its size",
    ),
    _PHYSICAL_OFFSET: (CorruptionKind.PHYSICAL_OFFSET, "it states {}"),
    _BODY_CRC: (CorruptionKind.BODY_CRC, "checksum and body differ"),
    _RECORD_CRC: (CorruptionKind.RECORD_CRC, "checksum property and bytes differ"),
    _NO_RECORD_CRC: (
        CorruptionKind.RECORD_CRC,
        "it has no checksum property, which every record of this part of the log has",
    ),
}
"""Faults of a record by number: kind, and detail, which may name the record's own offset."""


@kernel
def cut_window(
    window: npt.NDArray[np.uint8],
    base_offset: int,
    check_offset: bool,
    check_crc: bool,
    check_record_crc: bool,
    walks: bool,
    gap: int = 0,
) -> tuple[Any, ...]:
    """Cut the valid records from the start of a window on into columns.

    Args:
        window: ``(w,)`` uint8, contiguous.
        base_offset: physical offset of its first byte.
        check_offset: see `Decoder`.
        check_crc: see `Decoder`.
        check_record_crc: see `Decoder`.
        walks: how to look for borders, which changes no answer.
        gap: bytes before each record, the first one included, that are not decoded.

    Returns:
        Where the records and their parts are, ``(8, n)`` int64, rows as `SpanRow` names them; the
        headers, ``(n, 88)`` uint8, each row a `HEADER_DTYPE`, as if all hosts were IPv4; by name
        some or none of their numbers, ``(n,)`` in native byte order; the position after the last
        record, before the next gap; the fault of the record there by its number in `_FINDINGS`, 0
        if it is valid or no whole record; and the physical offset that this record states.
    """
    few = walks or len(window) <= _WALK_WITHIN
    borders = _walk_bytes(window, gap) if few else _find_borders(window, gap)
    header = _cut_headers(window, borders.start)
    places, structural = _cut_parts(window, borders, header)
    # The first record that fails a check; each check covers only rows before the one found.
    count, reason = len(borders.start), 0
    valid = structural
    if check_offset:
        valid = structural & (header["physical_offset"] == borders.start + base_offset)
    if not valid.all():
        count = int(valid.argmin())
        reason = _PHYSICAL_OFFSET if structural[count] else _LENGTH_MISMATCH
    if check_crc:
        bad = _wrong_crc(window, count, header, places)
        if bad >= 0:
            count, reason = bad, _BODY_CRC
    if check_record_crc:
        properties_size = places[SpanRow.PROPERTIES_SIZE].tolist()
        for row in range(count):
            if properties_size[row] < CRC_PROPERTY_SIZE:
                continue  # too short for a checksum property: the bytes belong to the body
            at = int(borders.start[row])
            record = window[at : at + int(borders.size[row])].tobytes()
            if not record_crc_matches(record, properties_size[row]):
                count, reason = row, _RECORD_CRC
                break
    position, stated = borders.end_position, 0
    if reason:
        position, stated = int(borders.start[count]) - gap, int(header["physical_offset"][count])
        places, header = places[:, :count], header[:count]
    rows = header.view(np.uint8).reshape(count, HEADER_DTYPE.itemsize)
    return places, rows, {}, position, reason, stated


# --------------------------------------------------------------------------- borders


def _find_borders(window: npt.NDArray[np.uint8], gap: int) -> _Borders:
    starts = magic_places(window)
    sizes = words_at(window, starts, np.dtype(">i4")).astype(np.int64)
    ends = starts + sizes
    is_chain = len(starts) > 0 and starts[0] == gap and int(sizes.min()) >= RECORD_MIN_SIZE
    if not is_chain or not np.array_equal(ends[:-1] + gap, starts[1:]):
        return _walk_bytes(window, gap)  # a body holds the magic, or no record begins the window
    if ends[-1] > len(window):  # the last one is cut by the window's end
        starts, sizes = starts[:-1], sizes[:-1]
    return _Borders(starts, sizes, int(ends[len(starts) - 1]) if len(starts) else 0)


def magic_places(window: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return ascending positions ``p`` where ``window[p + 4 : p + 8]`` is a record's magic."""
    magic = window[4 : len(window) - HEADER_SIZE + 8]
    # The first byte alone leaves one place in 256 of random bytes, and none of ASCII text.
    places = _few_places(magic == _MAGIC_BYTES[0])
    words = words_at(window, places + 4, _BE_U4)
    found: npt.NDArray[np.int64] = places[(words == MAGIC_V1) | (words == MAGIC_V2)]
    return found


def _few_places(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return `np.flatnonzero` of a nearly empty mask, faster: eight bytes at once."""
    whole = len(mask) & ~7
    words = mask[:whole].view(np.uint64)
    hit = np.flatnonzero(words != 0)
    inside = np.flatnonzero(words[hit].view(np.bool_))
    places = (hit << 3)[inside >> 3] + (inside & 7)
    return np.concatenate([places, np.flatnonzero(mask[whole:]) + whole])


def _walk_bytes(window: npt.NDArray[np.uint8], gap: int) -> _Borders:
    starts = []
    view, unpack = window.data, SIZE_AND_MAGIC.unpack_from
    position, end = gap, len(window)
    last = end - RECORD_MIN_SIZE
    while position <= last:
        size, magic = unpack(view, position)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or size < RECORD_MIN_SIZE:
            break
        if position + size > end:
            break
        starts.append(position)
        position += size + gap
    start = np.array(starts, np.int64)
    return _Borders(start, np.diff(start, append=position) - gap, position - gap)


def _what_follows(
    window: npt.NDArray[np.uint8], base_offset: int, position: int, file_end: int | None, gap: int
) -> tuple[str, int, int, Corruption | None]:
    """Classify the bytes after the last record: end, next offset, needed size, finding."""
    offset = base_offset + position
    rest = len(window) - position
    at_file_end = file_end is not None and base_offset + len(window) >= file_end
    if rest < BLANK_MIN_SIZE:
        if not at_file_end:
            return End.WINDOW, offset, position + HEADER_SIZE, None
        detail = f"{rest} bytes are left, a blank needs {BLANK_MIN_SIZE}"
        return End.BAD, offset, 0, Corruption(offset, CorruptionKind.NO_BLANK, detail)
    if gap:
        size, magic = size_and_magic(window[position : position + gap + BLANK_MIN_SIZE].tobytes())
        if magic == 0 and size != 0 and rest < gap + BLANK_MIN_SIZE and not at_file_end:
            return End.WINDOW, offset, position + gap + HEADER_SIZE, None
    else:
        size, magic = SIZE_AND_MAGIC.unpack_from(window.data, position)
    if magic == BLANK_MAGIC and size >= BLANK_MIN_SIZE:
        if file_end is None or offset + size == file_end:
            return End.BLANK, offset + size, 0, None
        detail = f"a blank of {size} bytes, {file_end - offset} are left in the file"
        return End.BAD, offset, 0, Corruption(offset, CorruptionKind.BAD_SIZE, detail)
    if magic in (MAGIC_V1, MAGIC_V2):
        if not RECORD_MIN_SIZE <= size - gap <= RECORD_SIZE_MAX:
            detail = f"size {size}, possible are {RECORD_MIN_SIZE + gap} to {RECORD_SIZE_MAX + gap}"
            return End.BAD, offset, 0, Corruption(offset, CorruptionKind.BAD_SIZE, detail)
        if file_end is not None and offset + size > file_end:
            detail = f"size {size}, but the file ends {file_end - offset} bytes on"
            return End.BAD, offset, 0, Corruption(offset, CorruptionKind.TRUNCATED, detail)
        if gap and size <= rest:
            detail = "its entry and its record differ in size"
            return End.BAD, offset, 0, Corruption(offset, CorruptionKind.LENGTH_MISMATCH, detail)
        return End.WINDOW, offset, position + size, None
    if size == 0:
        # Unwritten space is zero. A writer fills in the size last, so a record without a size is
        # still being written, or its writer died meanwhile.
        return End.EMPTY, offset, 0, None
    detail = f"magic {magic:08X}, a record has {MAGIC_V1:08X} or {MAGIC_V2:08X}"
    return End.BAD, offset, 0, Corruption(offset, CorruptionKind.BAD_MAGIC, detail)


# --------------------------------------------------------------------------- columns


def _cut_headers(
    window: npt.NDArray[np.uint8], start: npt.NDArray[np.int64]
) -> npt.NDArray[np.void]:
    """Return ``(n,)`` of `HEADER_DTYPE`: every record's header, as if both hosts were IPv4."""
    header = fixed_rows(window, start, HEADER_DTYPE)
    sys_flag = header["sys_flag"]
    long_hosts = (sys_flag & (BORN_HOST_V6 | STORE_HOST_V6)) != 0
    if long_hosts.any():
        # An IPv6 host moves the fields after it.
        rows = np.flatnonzero(long_hosts)
        born_extra = np.where(sys_flag[rows] & BORN_HOST_V6, HOST_EXTRA_V6, 0)
        store_extra = np.where(sys_flag[rows] & STORE_HOST_V6, HOST_EXTRA_V6, 0)
        # A record that is too short for its hosts fails the length check later.
        time_at = np.minimum(start[rows] + _HOST_ARRIVAL + born_extra, len(window) - 8)
        rest_at = start[rows] + HEADER_SIZE - AFTER_STORE_HOST_DTYPE.itemsize
        rest_at = np.minimum(rest_at + born_extra + store_extra, len(window) - 16)
        header["store_timestamp"][rows] = words_at(window, time_at, np.dtype(">i8"))
        rest = fixed_rows(window, rest_at, AFTER_STORE_HOST_DTYPE)
        for name in AFTER_STORE_HOST_DTYPE.names or ():
            header[name][rows] = rest[name]
    return header


def _cut_parts(
    window: npt.NDArray[np.uint8], borders: _Borders, header: npt.NDArray[np.void]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return where records and parts are, as `SpanRow` says, and which records are consistent.

    A length is read only if the lengths before it leave space for it; otherwise it counts as zero.
    """
    start, size = borders.start, borders.size
    sys_flag = header["sys_flag"].astype(np.int32)
    body_start = start + HEADER_SIZE
    body_start += np.where(sys_flag & BORN_HOST_V6, HOST_EXTRA_V6, 0)
    body_start += np.where(sys_flag & STORE_HOST_V6, HOST_EXTRA_V6, 0)
    topic_width = np.where(header["magic"] == MAGIC_V2, 2, 1)
    end = start + size
    # A negative length counts as none in RocketMQ's own length check.
    body_size = np.maximum(header["body_size"].astype(np.int64), 0)

    valid = body_start + body_size + topic_width + 2 <= end
    body_size = np.where(valid, body_size, 0)
    topic_at = np.where(valid, body_start + body_size, start)
    topic_size = window[topic_at].view(np.int8).astype(np.int64)
    wide = np.flatnonzero(topic_width == 2)
    if len(wide):
        topic_size[wide] = words_at(window, topic_at[wide], _BE_I2)
    topic_start = topic_at + topic_width

    valid &= (topic_size >= 0) & (topic_start + topic_size + 2 <= end)
    topic_size = np.where(valid, topic_size, 0)
    properties_at = np.where(valid, topic_start + topic_size, start)
    properties_size = np.maximum(words_at(window, properties_at, _BE_I2).astype(np.int64), 0)
    properties_start = properties_at + 2
    valid &= properties_start + properties_size == end
    properties_size = np.where(valid, properties_size, 0)
    body, topic = (body_start, body_size), (topic_start, topic_size)
    return np.stack([start, size, *body, *topic, properties_start, properties_size]), valid


# --------------------------------------------------------------------------- checksums


def _wrong_crc(
    window: npt.NDArray[np.uint8],
    count: int,
    header: npt.NDArray[np.void],
    places: npt.NDArray[np.int64],
) -> int:
    """Return the first of ``count`` rows whose body does not match its checksum, -1 if all match.

    One call per message: no library computes a CRC over many short texts at once.
    """
    view = window.data
    starts = places[SpanRow.BODY, :count].tolist()
    sizes = places[SpanRow.BODY_SIZE, :count].tolist()
    stated = header["body_crc"][:count].tolist()
    for row, (start, size, crc) in enumerate(zip(starts, sizes, stated, strict=True)):
        if size and crc32(view[start : start + size]) & 0x7FFFFFFF != crc:
            return row
    return -1


def _first_without_crc(window: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> int:
    """Return the first row without a checksum property, the number of rows if each has one.

    A record that is too small for a topic and the property is a filler.
    """
    name = np.frombuffer(CRC_PROPERTY_NAME, np.uint8)
    start, size = places[SpanRow.START], places[SpanRow.SIZE]
    lacks = size >= RECORD_MIN_SIZE + CRC_PROPERTY_SIZE
    rows = np.flatnonzero(places[SpanRow.PROPERTIES_SIZE] >= CRC_PROPERTY_SIZE)
    end = (start + size)[rows]
    at = end[:, np.newaxis] - CRC_PROPERTY_SIZE + np.arange(len(name))
    # No checksum covers the property's own name and end.
    lacks[rows[(window[at] == name).all(axis=1) & (window[end - 1] == VALUE_END)]] = False
    return int(lacks.argmax()) if lacks.any() else len(start)
