"""Finds out which file of a damaged ``commitlog`` directory holds which part of the log.

Files may be missing, short, long, doubled, renamed, or come from another store. A record states its
own physical offset, so a file with a valid record tells where it belongs, whatever it is called.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from reput.files import Disk, file_name, is_file_name, is_system_name
from reput.record.layout import BLANK_MAGIC, BLANK_MIN_SIZE, SIZE_AND_MAGIC
from reput_tools.doctor.repair.statedbases import counted_bases, sampled_bases
from reput_tools.offline import HidingDisk

if TYPE_CHECKING:
    from reput.files import Entry

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
    grows: bool = False
    """Whether the last file may be shorter (`reput.CommitLogConfig.grows`)."""

    @property
    def is_tidy(self) -> bool:
        """Whether every file is as it should be: nothing to rename, cut, extend or leave out."""
        return not self.notices


def lay_out(root: str, disk: Disk, file_size: int = 0, *, grows: bool = False) -> LogLayout:
    """Find the place of each file in ``commitlog``.

    Args:
        root: the store's directory.
        disk: the store's disk.
        file_size: bytes of a log file, if known; 0 to find out.
        grows: whether the last file may be shorter.
    """
    directory = os.path.join(root, "commitlog")
    notices: list[Notice] = []
    files = [entry for entry in disk.list(directory) if _is_candidate(entry, notices)]
    sizes = {entry.name: entry.stat().st_size for entry in files}
    file_size = file_size or _file_size(sizes)
    claims, strange = _claims(disk, files, sizes, file_size)
    for name, why in strange.items():
        notices.append(Notice(f"commitlog/{name}", "log-file.strange", f"{why}; it is left out"))
    parts = _near(_chosen(disk, claims, notices), file_size, notices)
    for part in parts:
        if not (grows and part is parts[-1] and part.size < file_size):
            _weigh_size(part, file_size, notices)
    return LogLayout(directory, file_size, tuple(parts), tuple(notices), grows)


def _is_candidate(entry: Entry, notices: list[Notice]) -> bool:
    if is_system_name(entry.name):
        return False
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
    """A place to which a file may belong."""

    part: LogPart
    name: str
    weight: int
    """Bytes of records that say so; 0 if only the file's name does."""

    @property
    def is_named(self) -> bool:
        return self.name == file_name(self.part.base)


def _claims(
    disk: Disk, files: Sequence[Entry], sizes: Mapping[str, int], file_size: int
) -> tuple[list[_Claim], dict[str, str]]:
    """Return the places to which files may belong, and why other files belong nowhere, by name."""
    stated: dict[str, Counter[int]] = {}
    for entry in files:
        found = sampled_bases(disk, entry.path, sizes[entry.name])
        # Few bytes decide only where they agree with each other and with the name.
        if {*found} - {_named_base(entry.name)}:
            found = counted_bases(disk, entry.path, sizes[entry.name])
        stated[entry.name] = found
    rivals = Counter(base for found in stated.values() for base in found)
    claims, strange = [], {}
    for entry in files:
        name, size, found = entry.name, sizes[entry.name], stated[entry.name]
        if any(rivals[base] > 1 for base in found):
            found = counted_bases(disk, entry.path, size)
        possible = {base: found[base] for base in found if base >= 0 and base % file_size == 0}
        named = _named_base(name)
        if not possible and not found and size and named is not None and named % file_size == 0:
            possible = {named: 0}
        if not possible:
            strange[name] = _why_strange(named, found, size, file_size)
        for base, weight in possible.items():
            claims.append(_Claim(LogPart(base, entry.path, size), name, weight))
    return claims, strange


def _named_base(name: str) -> int | None:
    return int(name) if is_file_name(name) else None


def _why_strange(named: int | None, found: Counter[int], size: int, file_size: int) -> str:
    if named is None or named % max(file_size, 1):
        return "holds no record of this log, nor has it a log file's name"
    if found:
        base = found.most_common(1)[0][0]
        return f"its records say that they stand at {base}, where no file of this log begins"
    return "it is empty" if size == 0 else "it holds no record"


def _chosen(disk: Disk, claims: Iterable[_Claim], notices: list[Notice]) -> list[LogPart]:
    """Choose one file for each place, and one place for each file: the heaviest claims first.

    So damage is what few bytes say: a block of another file at the head of a file does not make it
    a second copy of that file.
    """
    best: dict[int, _Claim] = {}
    placed: set[str] = set()
    refused: dict[str, _Claim] = {}
    order = sorted(claims, key=lambda each: (-each.weight, not each.is_named, -each.part.size))
    for claim in order:
        if claim.name in placed:
            continue
        if claim.part.base in best:
            refused.setdefault(claim.name, claim)
            continue
        best[claim.part.base] = claim
        placed.add(claim.name)
    for base, claim in sorted(best.items()):
        if not claim.is_named:
            text = f"its records say that it is {file_name(base)}; it gets that name"
            notices.append(Notice(f"commitlog/{claim.name}", "log-file.renamed", text))
    for name, other in sorted(refused.items()):
        if name in placed:
            continue
        taken = best[other.part.base]
        what = f"it stands for the same part of the log as {taken.name}"
        if _same(disk, taken, other):
            what = f"it holds the same bytes as {taken.name}"
        text = f"{what}; it is left out"
        notices.append(Notice(f"commitlog/{name}", "log-file.doubled", text))
    return [best[base].part for base in sorted(best)]


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


def _weigh_size(part: LogPart, file_size: int, notices: list[Notice]) -> None:
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


class PlacedDisk(HidingDisk):
    """Reads the files of a `LogLayout` under the names that they should have."""

    def __init__(self) -> None:
        super().__init__()
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
