"""Finds out which file of a damaged ``commitlog`` directory holds which part of the log.

Files may be missing, short, long, doubled, renamed, or come from another store. A record states its
own physical offset, so a file with a valid record tells where it belongs, whatever it is called.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import Disk, file_name, is_file_name
from reput.record import RECORD_SIZE_MAX, message_at
from reput.record.layout import (
    BLANK_MAGIC,
    BLANK_MIN_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_MIN_SIZE,
    SIZE_AND_MAGIC,
)

if TYPE_CHECKING:
    from reput.files import Entry

__all__ = ["LogLayout", "LogPart", "Notice", "PlacedDisk", "is_closed_by_blank", "lay_out"]

_WINDOWS: Final = (64 << 10, 1 << 20, 2 * RECORD_SIZE_MAX)
"""Bytes at the beginning of a file in which its first records are looked for, one after another."""
_MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
_OWN_OFFSET: Final = 28
_GAP_MAX: Final = 1_024
"""Files that may be missing in one place; a file further away belongs to another store."""
_READ_SIZE: Final = 1 << 20


@attrs.frozen
class Notice:
    """Something about a file that a repair changes, leaves out or takes from elsewhere."""

    file: str
    """Below the store's directory."""
    kind: str
    """Stable short name: ``log-file.renamed``, ``config.backup``, …"""
    text: str
    """What is wrong, and what is done about it, for people."""


@attrs.frozen
class LogPart:
    """A file that holds a part of the log."""

    base: int
    """Physical offset at which its first byte belongs."""
    path: str
    """The file, whatever its name."""
    size: int
    """Bytes that it has; may be less or more than a log file's size."""


@attrs.frozen
class LogLayout:
    """The files of a log, each at its place."""

    directory: str
    file_size: int
    parts: tuple[LogPart, ...]
    """Ascending, one for a base; files are missing where two bases are further apart."""
    notices: tuple[Notice, ...]

    @property
    def is_tidy(self) -> bool:
        """Whether every file is as it should be: nothing to rename, cut, extend or leave out."""
        return not self.notices


def lay_out(root: str, disk: Disk, file_size: int = 0) -> LogLayout:
    """Find the place of each file in ``commitlog``.

    Args:
        root: the store's directory.
        disk: the store's disk.
        file_size: bytes of a log file, if known; 0 to find out.
    """
    directory = os.path.join(root, "commitlog")
    notices: list[Notice] = []
    files = [entry for entry in disk.list(directory) if _is_candidate(entry, notices)]
    sizes = {entry.name: entry.stat().st_size for entry in files}
    file_size = file_size or _file_size(sizes)
    claims = [
        claim
        for entry in files
        if (claim := _claim(disk, entry, sizes[entry.name], file_size, notices)) is not None
    ]
    parts = _near(_chosen(disk, claims, notices), file_size, notices)
    for part in parts:
        _weigh_size(part, file_size, notices, is_last=part is parts[-1])
    return LogLayout(directory, file_size, tuple(parts), tuple(notices))


def _is_candidate(entry: Entry, notices: list[Notice]) -> bool:
    if entry.is_symlink():
        entry.is_file()  # raises where links are refused
    if entry.is_file():
        return True
    text = "no file; it is left out"
    notices.append(Notice(f"commitlog/{entry.name}", "log-file.strange", text))
    return False


def _file_size(sizes: dict[str, int]) -> int:
    """Return the size that the files were made with, from their names and sizes."""
    named = {int(name): size for name, size in sizes.items() if is_file_name(name) and size}
    if not named:
        return max(sizes.values(), default=0)
    bases = sorted(named)
    step = math.gcd(*(base - bases[0] for base in bases)) if len(bases) > 1 else 0
    if step in named.values():
        return step
    size, count = Counter(sorted(named.values(), reverse=True)).most_common(1)[0]
    if count > 1 or len(named) > 1 or size % 4096 == 0:
        return max(size, step) if count == 1 else size
    return 1 << max(size - 1, 1).bit_length()  # a sole file that was cut: sizes are round


# --------------------------------------------------------------------------- places of files


@attrs.frozen
class _Claim:
    """The place to which a file belongs."""

    part: LogPart
    name: str
    is_stated: bool
    """Whether its records say so; else only its name does."""

    @property
    def is_named(self) -> bool:
        return self.name == file_name(self.part.base)


def _claim(
    disk: Disk, entry: Entry, size: int, file_size: int, notices: list[Notice]
) -> _Claim | None:
    path, name = entry.path, entry.name
    shown = f"commitlog/{name}"
    stated = _stated_base(disk, path, size)
    named = int(name) if is_file_name(name) else None
    if stated is not None and stated >= 0 and stated % file_size == 0:
        return _Claim(LogPart(stated, path, size), name, is_stated=True)
    if named is None or named % file_size:
        what = "holds no record of this log, nor has it a log file's name"
    elif stated is not None:
        what = f"its records say that they stand at {stated}, where no file of this log begins"
    elif size == 0:
        what = "it is empty"
    else:
        return _Claim(LogPart(named, path, size), name, is_stated=False)
    notices.append(Notice(shown, "log-file.strange", f"{what}; it is left out"))
    return None


def _stated_base(disk: Disk, path: str, size: int) -> int | None:
    """Return where the file begins by its first two valid records, or by the only one."""
    found: Counter[int] = Counter()
    descriptor = disk.open(path)
    try:
        for window in _WINDOWS:
            found = _bases_stated(disk.read(descriptor, min(size, window), 0))
            best = found.most_common(1)
            if size <= window or (best and best[0][1] > 1):
                break
    finally:
        disk.close(descriptor)
    return found.most_common(1)[0][0] if found else None


def _bases_stated(data: bytes) -> Counter[int]:
    """Return bases that valid records state, with the number of records; two are enough."""
    found: Counter[int] = Counter()
    at = 0
    while (at := _next_magic(data, at)) >= 0:
        start, at = at - 4, at + 1
        record_size, _ = SIZE_AND_MAGIC.unpack_from(data, start)
        if not RECORD_MIN_SIZE <= record_size <= len(data) - start:
            continue
        own = int.from_bytes(
            data[start + _OWN_OFFSET : start + _OWN_OFFSET + 8], "big", signed=True
        )
        message = message_at(data[start : start + record_size], own)
        if message is not None and message.body_matches():
            found[own - start] += 1
            at = start + record_size + 4  # records in bodies say nothing
            if found[own - start] > 1:
                break
    return found


def _next_magic(data: bytes, start: int) -> int:
    """Return where the next magic stands, from ``start`` on, after the bytes of a size; or -1."""
    places = [at for magic in _MAGICS if (at := data.find(magic, max(start, 4))) >= 0]
    return min(places, default=-1)


def _chosen(disk: Disk, claims: Iterable[_Claim], notices: list[Notice]) -> list[LogPart]:
    """Choose one file for each place."""
    by_base: dict[int, list[_Claim]] = {}
    for claim in claims:
        by_base.setdefault(claim.part.base, []).append(claim)
    chosen = []
    for base, rivals in sorted(by_base.items()):
        rivals.sort(key=lambda each: (not each.is_stated, not each.is_named, -each.part.size))
        best = rivals[0]
        chosen.append(best.part)
        if not best.is_named:
            text = f"its records say that it is {file_name(base)}; it gets that name"
            notices.append(Notice(f"commitlog/{best.name}", "log-file.renamed", text))
        for other in rivals[1:]:
            what = "holds the same bytes as" if _same(disk, best, other) else "stands for the same"
            text = f"it {what} part of the log as {best.name}; it is left out"
            if what.startswith("holds"):
                text = f"it holds the same bytes as {best.name}; it is left out"
            notices.append(Notice(f"commitlog/{other.name}", "log-file.doubled", text))
    return chosen


def _same(disk: Disk, one: _Claim, other: _Claim) -> bool:
    if one.part.size != other.part.size:
        return False
    first, second = disk.open(one.part.path), disk.open(other.part.path)
    try:
        return all(
            disk.read(first, _READ_SIZE, at) == disk.read(second, _READ_SIZE, at)
            for at in range(0, one.part.size, _READ_SIZE)
        )
    finally:
        disk.close(first)
        disk.close(second)


def _near(parts: Sequence[LogPart], file_size: int, notices: list[Notice]) -> list[LogPart]:
    """Return the largest group of files that are near each other; leave out the others."""
    groups: list[list[LogPart]] = []
    for part in parts:
        if groups and part.base - groups[-1][-1].base <= _GAP_MAX * file_size:
            groups[-1].append(part)
        else:
            groups.append([part])
    kept = max(groups, key=len, default=[])
    for group in groups:
        for part in group if group is not kept else ():
            text = f"it is far from the other files, which begin at {kept[0].base}; it is left out"
            notices.append(Notice(f"commitlog/{_name(part)}", "log-file.strange", text))
    return kept


def _weigh_size(part: LogPart, file_size: int, notices: list[Notice], *, is_last: bool) -> None:
    if part.size > file_size:
        text = f"it has {part.size} bytes where log files have {file_size}; the rest is left out"
        notices.append(Notice(f"commitlog/{_name(part)}", "log-file.long", text))
    elif part.size < file_size:
        text = f"it has {part.size} bytes where log files have {file_size}; it gets that size"
        notices.append(Notice(f"commitlog/{_name(part)}", "log-file.short", text))


def _name(part: LogPart) -> str:
    return os.path.basename(part.path)


def is_closed_by_blank(data: bytes, rest: int) -> bool:
    """Whether ``data`` begins with a blank of ``rest`` bytes, all that is left of its file."""
    return rest >= BLANK_MIN_SIZE and data[:BLANK_MIN_SIZE] == SIZE_AND_MAGIC.pack(
        rest, BLANK_MAGIC
    )


# --------------------------------------------------------------------------- reading them


@attrs.frozen
class _PlacedEntry:
    """A file of the log, as a directory in which everything is at its place would show it."""

    name: str
    path: str
    part: LogPart
    file_size: int

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return False

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return True

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        about = list(os.stat(self.part.path, follow_symlinks=follow_symlinks))
        about[6] = self.file_size  # short files read as fewer bytes, long ones are cut
        return os.stat_result(about)


class PlacedDisk(Disk):
    """Reads the files of a `LogLayout` under the names that they should have."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._directory = ""
        self._paths: dict[str, str] = {}

    def show(self, layout: LogLayout) -> None:
        """Show the files of ``layout`` from now on."""
        self._directory = layout.directory
        self._entries = [
            _PlacedEntry(
                file_name(part.base),
                os.path.join(layout.directory, file_name(part.base)),
                part,
                layout.file_size,
            )
            for part in layout.parts
        ]
        paths = zip(self._entries, layout.parts, strict=True)
        self._paths = {entry.path: part.path for entry, part in paths}

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """See `Disk.open`."""
        return super().open(self._paths.get(path, path), write=write, create=create, fresh=fresh)

    def list(self, path: str) -> list[Entry]:
        """See `Disk.list`."""
        return list(self._entries) if path == self._directory else super().list(path)
