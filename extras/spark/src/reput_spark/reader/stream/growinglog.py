"""Look at a log that grows: where it begins for a stream, how far it goes, and where to stop.

Each look begins where the last look ended; see `reput_arrow.logs.growinglog`.
"""

from __future__ import annotations

import bisect
import os
from typing import TYPE_CHECKING

import numpy as np

from reput.files import file_name, is_file_name
from reput.log import LedgerFiles
from reput_arrow.logs import growinglog
from reput_arrow.logs.arrowdisk import below, disk_of
from reput_arrow.logs.growinglog import LogCutError
from reput_arrow.logs.openlog import OpenLog
from reput_spark.errors import SparkReputError
from reput_spark.reader.stream.options import EARLIEST, LATEST, StreamOptions
from reput_spark.reader.tasks import find_logs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reput_arrow.logs.logplace import LogPlace


def key_of(place: LogPlace) -> str:
    """Return the name of a log in an offset: the path of its files, or of the one file."""
    if place.only_base is None:
        return settled_key(place.directory)
    return settled_key(below(place.directory, file_name(place.only_base)))


def settled_key(key: str) -> str:
    """Return the one name of a log however its path is spelled, without links and ``file:``.

    Offsets of earlier releases have paths as they were spelled.
    """
    if "://" in key and not key.startswith("file://"):
        return key
    try:
        path = disk_of(key)[1]
    except ValueError:  # not a URI, so not a log of ours, and not found
        return key
    head, name = os.path.split(path)
    if is_file_name(name):
        return os.path.join(os.path.realpath(head), name)  # its path in the log counts
    return os.path.realpath(path)


def find_stream_logs(paths: Iterable[str]) -> dict[str, LogPlace]:
    """Return the logs that paths lead to now, by their keys in order.

    A new store without messages has none, and that is not an error.

    Raises:
        SparkReputError: nothing there, or no log.
    """
    found: dict[str, LogPlace] = {}
    for path in paths:
        try:
            places = find_logs([path])
        except SparkReputError:
            if not _is_empty_store(path):
                raise
            continue
        for place in places:
            found[key_of(place)] = place
    return dict(sorted(found.items()))


def _is_empty_store(path: str) -> bool:
    try:
        disk, inside = disk_of(path)
        return disk.exists(f"{inside}/commitlog")
    except (OSError, ValueError):
        return False


def end_behind(log: OpenLog, position: int) -> int:
    """Return how far the log goes: from ``position`` on, an end that was found before.

    Raises:
        SparkReputError: what stood before ``position`` is gone.
    """
    try:
        return growinglog.end_behind(log, position)
    except LogCutError as error:
        raise SparkReputError(
            "DATA_LOSS",
            f"{error.directory} was cut or recreated: the stream has read up to {position}, "
            "and the bytes before that place are gone. Most likely the machine lost power, and the "
            "log no longer has the last streamed messages. Begin a new query, with a "
            "checkpoint of its own, at the present end of the store (option starting)",
        ) from error


def limited_end(
    log: OpenLog, start: int, end: int, max_bytes: int | None, max_records: int | None
) -> int:
    """Return the end of as many records from ``start`` on as one batch may have; one at least.

    Reads what the batch will read, and never more than one file where bytes are the only limit:
    files begin with a record for certain.

    Args:
        log: the log, whose end is known.
        start: where a record begins.
        end: how far the log goes.
        max_bytes: most bytes; None for any number.
        max_records: most records; None for any number.
    """
    target = end if max_bytes is None else min(end, start + max_bytes)
    if max_records is None and target == end:
        return end
    reached = start
    if max_records is None:
        reached = max(start, log.files.base_of(target) or 0)
    left = np.iinfo(np.int64).max if max_records is None else max_records
    for batch in log.scan(reached, end):
        ends = batch.physical_offset + batch.size
        fits = min(int(np.searchsorted(ends, target, "right")), left)
        if fits < len(batch):
            if fits == 0:
                return reached if reached > start else int(ends[0])
            return int(ends[fits - 1])
        reached, left = batch.end_offset, left - fits
        if reached >= target:
            return min(reached, end)
    return end


def beginning_of(log: OpenLog, options: StreamOptions) -> int:
    """Return where a new query begins to read a log.

    Raises:
        SparkReputError: an offset that the log does not have, or an end that is not known.
    """
    first = log.min_physical_offset
    if options.starting_timestamp is None and options.starting == EARLIEST:
        return first
    if isinstance(log.files, LedgerFiles) and log.files.committed_index is None:
        raise SparkReputError(
            "OPTION",
            f"{log.files.directory}: DLedger's file checkpoint does not name the last committed "
            "entry, so that a query can only begin with starting=earliest; put it back, or wait "
            "until the broker has written it",
        )
    end = end_behind(log, first)
    if options.starting_timestamp is not None:
        return _at_time(log, options.starting_timestamp, end)
    if options.starting == LATEST:
        return end
    assert isinstance(options.starting, int)
    if not first <= options.starting <= end:
        raise SparkReputError(
            "DATA_LOSS" if options.starting < first else "OPTION",
            f"option 'starting' is {options.starting}; {log.files.directory} has {first} to {end}. "
            "starting=earliest begins with the first byte there is, starting=latest at the end",
        )
    return _at_offset(log, options.starting, end)


def _at_offset(log: OpenLog, offset: int, end: int) -> int:
    """Return the first border at ``offset`` or after it, looked for from where its file begins."""
    base = log.files.base_of(offset)
    if offset >= end or base is None:
        return end
    for batch in log.scan(base, end):
        rows = np.flatnonzero(batch.physical_offset >= offset)
        if len(rows):
            return int(batch.physical_offset[rows[0]])
    return end


def _at_time(log: OpenLog, timestamp: int, end: int) -> int:
    """Return where the first record stored at ``timestamp`` or later begins; else ``end``."""
    # Store times grow with the offsets, as far as the clocks of the writers did.
    bases = [base for base in log.files.bases if base < end]
    number = bisect.bisect_left(bases, timestamp, key=log.store_timestamp_in_files)
    for batch in log.scan(bases[max(number - 1, 0)] if bases else end, end):
        rows = np.flatnonzero(batch.store_timestamp >= timestamp)
        if len(rows):
            return int(batch.physical_offset[rows[0]])
    return end
