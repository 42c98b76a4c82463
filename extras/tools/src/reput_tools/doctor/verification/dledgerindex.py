"""Compares the index of DLedger with its files of entries: 32 bytes for each entry.

    0       4          12     16      24     32
    +-------+----------+------+-------+------+
    | magic | position | size | index | term |
    +-------+----------+------+-------+------+

A file is named by 32 times its first index. The index may end before the log: a broker adds what is
missing. It may begin before the log, whose oldest files a broker removes first.

Source: DLedger ``DLedgerMmapFileStore``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.files import FilePool, is_file_name
from reput.log import ledger_in, log_files
from reput_tools.doctor.findings import Severity, finding_of_file

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.files import Disk, MappedFileQueue
    from reput_tools.doctor.findings import Finding, Findings

    Units = npt.NDArray[np.void]

_UNIT: Final = np.dtype(
    [
        ("magic", ">i4"),  # 1; 0 of an entry that is not there yet
        ("position", ">i8"),  # byte of the log at which the entry begins
        ("size", ">i4"),  # bytes of the entry
        ("index", ">i8"),  # ordinal of the entry
        ("term", ">i8"),
    ]
)
_HEAD: Final = np.dtype([(n, _UNIT[n]) for n in ("magic", "size", "index", "term", "position")])
_CHUNK: Final = 1 << 16  # units of one read


def check_dledger_index(root: str, disk: Disk, findings: Findings, end: int) -> int:
    """Report index files whose names contradict their units, and units that lead elsewhere.

    Args:
        root: the store's directory.
        disk: bound to it.
        findings: is added to.
        end: physical offset at which the log ends.

    Returns:
        The number of index files.
    """
    folder = ledger_in(root, disk)
    if folder is None or not disk.exists(os.path.join(root, folder, "index")):
        return 0
    index = f"{folder}/index"
    bases = sorted(int(name) for name in disk.list_names(f"{root}/{index}") if is_file_name(name))
    pool = FilePool(disk, 4)
    try:
        log = log_files(root, 0, disk, pool)
        log.load(writable=False)
        expected = _first_entry(log)
        for base in bases:
            path = f"{index}/{base:020d}"
            units = _units(pool, f"{root}/{path}")
            reason = _wrong(log, units, base, expected, end)
            if reason:
                findings.add(_finding(path, reason))
            expected = base // _UNIT.itemsize + len(units)
    finally:
        pool.close()
    return len(bases)


def _finding(path: str, reason: str) -> Finding:
    return finding_of_file(
        Severity.DAMAGE,
        "log.dledger-index",
        "log",
        path,
        reason,
        "a unit for each entry, at 32 times its index",
        "put the file back from a copy; a broker reads entries by their units",
    )


def _first_entry(log: MappedFileQueue) -> int:
    """Return the index of the first entry; 0 if it cannot be read."""
    head = np.frombuffer(log.read(log.entries_from, _HEAD.itemsize).ljust(_HEAD.itemsize), _HEAD)
    return int(head["index"][0]) if head["magic"][0] == 1 else 0


def _units(pool: FilePool, path: str) -> Units:
    """Return the units of a file before the first unused one."""
    parts: list[Units] = []
    at = 0
    while True:
        data = pool.read(path, _CHUNK * _UNIT.itemsize, at)
        units = np.frombuffer(data, _UNIT, len(data) // _UNIT.itemsize)
        used = units["magic"] != 0
        count = len(units) if used.all() else int(np.argmin(used))
        parts.append(units[:count])
        at += len(data)
        if count < len(units) or not len(units):
            return np.concatenate(parts)


def _wrong(log: MappedFileQueue, units: Units, base: int, expected: int, end: int) -> str:
    """Return what is wrong with the units of a file, or nothing.

    Args:
        log: the files of entries.
        units: of the file.
        base: by which the file is named.
        expected: index of the first entry that has to be in this file or before it.
        end: physical offset at which the log ends.
    """
    first = base // _UNIT.itemsize
    if base % _UNIT.itemsize or first > expected:
        return f"it begins with entry {first}, and not with {expected}"
    wrong = units["index"] != first + np.arange(len(units))
    if wrong.any():
        at = int(np.argmax(wrong))
        return f"the unit of entry {first + at} is of entry {int(units['index'][at])}"
    positions = units["position"].astype(np.int64)
    if (positions[1:] < positions[:-1] + units["size"][:-1]).any():
        return "its units do not ascend"
    there = np.flatnonzero((positions >= log.entries_from) & (positions < end))
    if not len(there):
        return ""
    unit = units[there[0]]
    data = log.read(int(unit["position"]), _HEAD.itemsize).ljust(_HEAD.itemsize, b"\0")
    head = np.frombuffer(data, _HEAD, 1)[0]
    if any(head[name] != unit[name] for name in _HEAD.names or ()):
        return f"the unit of entry {int(unit['index'])} does not lead to that entry"
    return ""
