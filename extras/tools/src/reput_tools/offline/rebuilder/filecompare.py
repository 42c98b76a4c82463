"""Compares files that a rebuild has built with the files of the store."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from reput.files import is_system_name
from reput_tools.offline.contract.comparison import Difference

if TYPE_CHECKING:
    from reput.files import Disk

_CHUNK: Final = 1 << 22
_HEAD: Final = 40  # bytes at the start by which files are recognised
_ALIKE_MIN: Final = 24  # of these bytes, for a file whose head is damaged
_FILES_IN_FULL: Final = 100  # files all of whose differences are listed, as far as wanted
_GAP: Final = 64  # equal bytes that part two differences; fewer belong to one
_BYTES: Final = "bytes differ from the bytes that the log gives"


def compare(
    root: str,
    built: str,
    names: Sequence[str],
    disk: Disk,
    named_by_clock: Collection[str] = (),
    limit: int = 1,
) -> Iterator[Difference]:
    """Yield the first differences of each file below ``root`` from its file below ``built``.

    Zeros at the end of a file count as no bytes: writers make files at full size or cut them to
    what they hold.

    Args:
        root: the store's directory.
        built: where the files were built.
        names: files and directories below both that are compared, with all that is in them.
        disk: file operations.
        named_by_clock: those of ``names`` whose files are matched by their first bytes, as the
            names say when the files were made. The order of the names is compared.
        limit: how many differences of each file; the last of so many reaches to the last byte of
            the file that differs. After a hundred times as many, one of each file.
    """
    yield from _all_differences(root, built, names, disk, named_by_clock, _Limit(limit))


class _Limit:
    """How many differences of a file are still wanted: memory is bounded over all files."""

    def __init__(self, of_file: int) -> None:
        self._of_file = of_file
        self._left = _FILES_IN_FULL * of_file

    def of_file(self) -> int:
        """Return how many of the next file."""
        return min(self._of_file, max(self._left, 1))

    def take(self, count: int) -> None:
        """Note that so many were found in a file."""
        self._left -= count


def _all_differences(
    root: str,
    built: str,
    names: Sequence[str],
    disk: Disk,
    named_by_clock: Collection[str],
    limit: _Limit,
) -> Iterator[Difference]:
    for name in names:
        expected = set(_files(built, name, disk))
        found = set(_files(root, name, disk))
        if name in named_by_clock:
            pairs = _alike(root, sorted(found), built, sorted(expected), disk)
            for path, other in pairs:
                yield from _differences(root, path, built, other, disk, limit)
            yield from _misnamed(pairs)
            found -= {path for path, _ in pairs}
            expected -= {other for _, other in pairs}
        for path in sorted(expected | found):
            if path not in found:
                size = _size(os.path.join(built, path), disk)
                yield Difference(
                    path, 0, "the file is missing", kind="missing", size=size, is_absent=True
                )
            elif path not in expected:
                runs = _runs(os.path.join(root, path), None, disk, 1)
                if runs:
                    reason = "nothing in the log leads to this file"
                    yield Difference(path, 0, reason, kind="extra", size=runs[-1].end)
            else:
                yield from _differences(root, path, built, path, disk, limit)


def _differences(
    root: str, path: str, built: str, other: str, disk: Disk, limit: _Limit
) -> Iterator[Difference]:
    runs = _runs(os.path.join(root, path), os.path.join(built, other), disk, limit.of_file())
    limit.take(len(runs))
    for run in runs:
        yield Difference(
            path,
            run.start,
            _BYTES,
            size=run.end - run.start,
            built_path="" if other == path else other,
            is_absent=run.is_absent,
        )


def extent(root: str, names: Sequence[str], disk: Disk) -> tuple[int, int]:
    """Return how many files are below ``root`` at and below ``names``, and their bytes.

    Holes do not count.
    """
    sizes = [
        _held_size(os.path.join(root, path), disk)
        for name in names
        for path in _files(root, name, disk)
    ]
    return len(sizes), sum(sizes)


def _held_size(path: str, disk: Disk) -> int:
    descriptor = disk.open(path)
    try:
        ranges = disk.data_ranges(descriptor, 0, disk.size(descriptor))
        return sum(end - start for start, end in ranges)
    finally:
        disk.close(descriptor)


def built_sizes(built: str, found: Sequence[Difference], disk: Disk) -> dict[str, int]:
    """Return the size of each rebuilt file that differs, by the path of the store's file."""
    others = {each.path: each.built_path or each.path for each in found if each.kind == "bytes"}
    return {path: _size(os.path.join(built, other), disk) for path, other in others.items()}


def _size(path: str, disk: Disk) -> int:
    descriptor = disk.open(path)
    try:
        return disk.size(descriptor)
    finally:
        disk.close(descriptor)


def _alike(
    root: str, found: Sequence[str], built: str, expected: Sequence[str], disk: Disk
) -> list[tuple[str, str]]:
    """Return pairs of files that begin with the same bytes, each file in at most one pair.

    A file whose name is of another form than that of built ones is not a file of the plugin.
    Where a file has no other with the same beginning, it is paired with the one that has most of
    the bytes, as its beginning may be what is damaged.
    """
    left: dict[tuple[str, bytes], list[str]] = {}
    forms = {_form(other) for other in expected}
    for path in found:
        if expected and _form(path) not in forms:
            continue
        key = os.path.dirname(path), disk.read_file(os.path.join(root, path), _HEAD)
        left.setdefault(key, []).append(path)
    pairs, alone = [], []
    for other in expected:
        key = os.path.dirname(other), disk.read_file(os.path.join(built, other), _HEAD)
        alike = left.get(key, [])
        if alike:
            pairs.append((alike.pop(alike.index(other) if other in alike else 0), other))
        else:
            alone.append((*key, other))
    for directory, head, other in alone:
        near = [
            (_same_bytes(head, own), path)
            for (folder, own), paths in left.items()
            if folder == directory
            for path in paths
        ]
        same, path = max(near, default=(0, ""))
        if same >= _ALIKE_MIN:
            pairs.append((path, other))
            next(paths for paths in left.values() if path in paths).remove(path)
    return pairs


def _misnamed(pairs: Sequence[tuple[str, str]]) -> Iterator[Difference]:
    """Yield the files whose names have another order than their contents: readers go by names."""
    directories: dict[str, list[tuple[str, str]]] = {}
    for path, other in pairs:
        directories.setdefault(os.path.dirname(path), []).append((other, path))
    for files in directories.values():
        by_content = [path for _, path in sorted(files)]
        places = {path: place for place, path in enumerate(sorted(by_content), 1)}
        for place, path in enumerate(by_content, 1):
            if places[path] != place:
                yield Difference(
                    path,
                    0,
                    "the name gives the file another place than its contents have",
                    kind="order",
                    found=f"place {places[path]} of {len(files)}, by the file's name",
                    expected=f"place {place}, by its contents",
                )


def _form(path: str) -> str:
    """Return the path with every digit of its last name as 0."""
    directory, name = os.path.split(path)
    return os.path.join(directory, "".join("0" if each.isdigit() else each for each in name))


def _same_bytes(left: bytes, right: bytes) -> int:
    return sum(map(int.__eq__, left, right))


def _files(root: str, name: str, disk: Disk) -> Iterator[str]:
    entries = {entry.name: entry for entry in disk.list(os.path.join(root, os.path.dirname(name)))}
    entry = entries.get(os.path.basename(name))
    if entry is None:
        return
    follows = disk.follows_links  # where they are not, opening a link is an error
    if not entry.is_dir(follow_symlinks=follows):
        yield name
        return
    for below in disk.list(os.path.join(root, name)):
        if is_system_name(below.name):
            continue
        path = os.path.join(name, below.name)
        if below.is_dir(follow_symlinks=follows):
            yield from _files(root, path, disk)
        else:
            yield path


class _Run(NamedTuple):
    """Bytes that differ, from the first to after the last, with few equal ones in between."""

    start: int
    end: int
    is_absent: bool
    """Whether all of them are zero in the first file."""


def _runs(path: str, other: str | None, disk: Disk, limit: int) -> list[_Run]:
    """Return where the first file differs from the other one, or from zeros; ``limit`` at most."""
    first = disk.open(path)
    second = -1
    found: list[_Run] = []
    try:
        second = -1 if other is None else disk.open(other)
        size = disk.size(first)
        if other is not None:
            size = max(size, disk.size(second))
        for position in _positions([first] if other is None else [first, second], size, disk):
            count = min(_CHUNK, size - position)
            left = disk.read(first, count, position).ljust(count, b"\0")
            right = b"" if other is None else disk.read(second, count, position)
            right = right.ljust(count, b"\0")
            if left != right:
                _add_runs(found, left, right, position, limit)
                if limit == 1 and other is not None:
                    break
        return found
    finally:
        disk.close(first)
        if second >= 0:
            disk.close(second)


def _positions(descriptors: Sequence[int], size: int, disk: Disk) -> list[int]:
    """Return where the pieces begin in which any of the files is not sparse.

    An index file of 400 MB with one message is read in some milliseconds.
    """
    pieces = {
        piece
        for descriptor in descriptors
        for start, end in disk.data_ranges(descriptor, 0, size)
        for piece in range(start // _CHUNK, -(-end // _CHUNK))
    }
    return [piece * _CHUNK for piece in sorted(pieces) if piece * _CHUNK < size]


def _add_runs(found: list[_Run], left: bytes, right: bytes, position: int, limit: int) -> None:
    own, wanted = np.frombuffer(left, np.uint8), np.frombuffer(right, np.uint8)
    places = np.flatnonzero(own != wanted)
    breaks = np.flatnonzero(np.diff(places) > _GAP)
    starts = places[np.concatenate([[0], breaks + 1])]
    ends = places[np.concatenate([breaks, [len(places) - 1]])] + 1
    last = int(ends[-1])
    for start, end in zip(starts[:limit].tolist(), ends[:limit].tolist(), strict=True):
        run = _Run(position + start, position + end, not own[start:end].any())
        if found and (len(found) >= limit or run.start - found[-1].end <= _GAP):
            before = found.pop()
            run = _Run(before.start, run.end, before.is_absent and run.is_absent)
        found.append(run)
    if position + last > found[-1].end:  # those after the limit
        before = found.pop()
        rest = own[max(before.end - position, 0) : last]
        found.append(_Run(before.start, position + last, before.is_absent and not rest.any()))
