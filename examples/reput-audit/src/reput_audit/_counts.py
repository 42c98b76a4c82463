"""`Counts`: what the plugin knows, and its encoding as bytes."""

from __future__ import annotations

import zlib

import attrs
import numpy as np

import reput
from reput.errors import CorruptFileError
from reput_audit.layout import HEADER_DTYPE, MAGIC, ROW_DTYPE, VERSION

Key = tuple[int, int, str]
"""Commit-log file (physical offset of its start), period since the epoch, topic."""
Tally = tuple[int, int]
"""Number of messages, bytes of their bodies."""


@attrs.define(eq=False)
class Counts:
    """Messages counted by commit-log file, period and topic.

    The file is part of the key because the log is cut and trimmed: the counts of a lost part can be
    dropped row by row, without counting the rest again.
    """

    period_ms: int
    dispatched_to: int = 0
    """Physical offset below which every message is counted."""
    rows: dict[Key, Tally] = attrs.field(factory=dict)

    def add(self, batch: reput.DispatchBatch, file_size: int) -> None:
        """Count the messages of ``batch`` that were not counted before."""
        fresh = batch.after(self.dispatched_to)
        log_file = fresh.physical_offset // file_size * file_size
        period = fresh.store_timestamp // self.period_ms
        keys = np.stack([log_file, period, fresh.topic_code], axis=1)
        groups, group_of = np.unique(keys, axis=0, return_inverse=True)
        group_of = group_of.reshape(-1)  # numpy 2.0 gave it a second dimension
        message_count = np.bincount(group_of, minlength=len(groups))
        body_size = np.zeros(len(groups), np.int64)
        np.add.at(body_size, group_of, fresh.body.sizes)
        for row, (file, number, code) in enumerate(groups.tolist()):
            key = (file, number, batch.topics[code])
            messages, size = self.rows.get(key, (0, 0))
            self.rows[key] = messages + int(message_count[row]), size + int(body_size[row])
        self.dispatched_to = max(self.dispatched_to, batch.end_offset)

    def merge(self, later: Counts) -> None:
        """Add counts of messages that stand after those counted here."""
        for key, (messages, size) in later.rows.items():
            so_far = self.rows.get(key, (0, 0))
            self.rows[key] = so_far[0] + messages, so_far[1] + size
        self.dispatched_to = max(self.dispatched_to, later.dispatched_to)

    def cut(self, physical_offset: int, file_size: int) -> None:
        """Forget messages from ``physical_offset`` to the end, and all of that commit-log file."""
        if physical_offset < self.dispatched_to:
            self.dispatched_to = physical_offset // file_size * file_size
            self._keep(0, self.dispatched_to)

    def trim(self, physical_offset: int) -> None:
        """Forget the commit-log files that start below ``physical_offset``."""
        self._keep(physical_offset, self.dispatched_to)

    def _keep(self, first: int, end: int) -> None:
        self.rows = {key: tally for key, tally in self.rows.items() if first <= key[0] < end}

    def totals(self) -> dict[tuple[str, int], Tally]:
        """Return counts by topic and start of the period (ms) over all commit-log files; sorted."""
        totals: dict[tuple[str, int], Tally] = {}
        for (_, period, topic), (count, size) in self.rows.items():
            key = (topic, period * self.period_ms)
            so_far = totals.get(key, (0, 0))
            totals[key] = so_far[0] + count, so_far[1] + size
        return dict(sorted(totals.items()))


def encode_counts(counts: Counts) -> bytes:
    """Return the bytes of the file; equal counts give equal bytes."""
    names, places = b"", {}
    for topic in sorted({topic for _, _, topic in counts.rows}):
        name = topic.encode()
        places[topic] = len(names), len(name)
        names += name
    sorted_rows = sorted(counts.rows.items())
    rows = np.array(
        [(file, period, *places[topic], *tally) for (file, period, topic), tally in sorted_rows],
        ROW_DTYPE,
    )
    header = np.zeros((), HEADER_DTYPE)
    header["magic"] = MAGIC
    header["version"] = VERSION
    header["period_ms"] = counts.period_ms
    header["dispatched_to"] = counts.dispatched_to
    header["row_count"] = len(rows)
    header["name_size"] = len(names)
    covered = header.tobytes()[4:] + rows.tobytes() + names
    return zlib.crc32(covered).to_bytes(4, "big") + covered


def decode_counts(data: bytes, path: str) -> Counts:
    """Decode the bytes of the file ``path``.

    Raises:
        CorruptFileError: `encode_counts` did not write these bytes.
    """
    if len(data) < HEADER_DTYPE.itemsize:
        raise CorruptFileError(path, 0, f"{len(data)} bytes are too few for the header")
    header = np.frombuffer(data, HEADER_DTYPE, 1)[0]
    if header["magic"] != MAGIC or header["version"] != VERSION:
        raise CorruptFileError(path, 4, f"{MAGIC.decode()} version {VERSION} expected")
    # The checksum covers every length below: no read can use a wrong length.
    if zlib.crc32(data[4:]) != header["crc"]:
        raise CorruptFileError(path, 0, "checksum and bytes differ")
    rows = np.frombuffer(data, ROW_DTYPE, int(header["row_count"]), HEADER_DTYPE.itemsize)
    names = data[len(data) - int(header["name_size"]) :]
    counts = Counts(int(header["period_ms"]), int(header["dispatched_to"]))
    for file, period, start, size, *tally in rows.tolist():
        counts.rows[file, period, names[start : start + size].decode()] = tally[0], tally[1]
    return counts
