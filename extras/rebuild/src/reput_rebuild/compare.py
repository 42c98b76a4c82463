"""Compares files that a rebuild has built with the files of the store."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from reput.plugin import Difference

if TYPE_CHECKING:
    from reput.files import Disk

__all__ = ["compare"]

_CHUNK: Final = 1 << 22
_HEAD: Final = 40  # bytes at the start by which files are recognised


def compare(
    root: str,
    built: str,
    names: Sequence[str],
    disk: Disk,
    named_by_clock: Collection[str] = (),
) -> Iterator[Difference]:
    """Yield the first difference of each file below ``root`` from its file below ``built``.

    Zeros at the end of a file count as no bytes: writers make files at full size or cut them to
    what they hold.

    Args:
        root: the store's directory.
        built: where the files were built.
        names: files and directories below both that are compared, with all that is in them.
        disk: file operations.
        named_by_clock: those of ``names`` whose files are matched by their first bytes, as the
            names say when the files were made.
    """
    for name in names:
        expected = set(_files(built, name, disk))
        found = set(_files(root, name, disk))
        if name in named_by_clock:
            pairs = _alike(root, sorted(found), built, sorted(expected), disk)
            for path, other in pairs:
                position = _first_difference(
                    os.path.join(root, path), os.path.join(built, other), disk
                )
                if position is not None:
                    yield Difference(path, position, "bytes are not those that follow from the log")
            found -= {path for path, _ in pairs}
            expected -= {other for _, other in pairs}
        for path in sorted(expected | found):
            if path not in found:
                yield Difference(path, 0, "the file is missing")
            elif path not in expected:
                if _first_difference(os.path.join(root, path), None, disk) is not None:
                    yield Difference(path, 0, "nothing in the log leads to this file")
            else:
                position = _first_difference(
                    os.path.join(root, path), os.path.join(built, path), disk
                )
                if position is not None:
                    yield Difference(path, position, "bytes are not those that follow from the log")


def _alike(
    root: str, found: Sequence[str], built: str, expected: Sequence[str], disk: Disk
) -> list[tuple[str, str]]:
    """Return pairs of files that begin with the same bytes, each file in at most one pair."""
    left: dict[tuple[str, bytes], list[str]] = {}
    for path in found:
        key = os.path.dirname(path), disk.read_file(os.path.join(root, path), _HEAD)
        left.setdefault(key, []).append(path)
    pairs = []
    for other in expected:
        key = os.path.dirname(other), disk.read_file(os.path.join(built, other), _HEAD)
        alike = left.get(key, [])
        if alike:
            pairs.append((alike.pop(alike.index(other) if other in alike else 0), other))
    return pairs


def _files(root: str, name: str, disk: Disk) -> Iterator[str]:
    entries = {entry.name: entry for entry in disk.list(os.path.join(root, os.path.dirname(name)))}
    entry = entries.get(os.path.basename(name))
    if entry is None:
        return
    if not entry.is_dir(follow_symlinks=False):
        yield name
        return
    for below in disk.list(os.path.join(root, name)):
        path = os.path.join(name, below.name)
        if below.is_dir(follow_symlinks=False):
            yield from _files(root, path, disk)
        else:
            yield path


def _first_difference(path: str, other: str | None, disk: Disk) -> int | None:
    first = disk.open(path)
    second = -1
    try:
        second = -1 if other is None else disk.open(other)
        size = disk.size(first)
        if other is not None:
            size = max(size, disk.size(second))
        for position in range(0, size, _CHUNK):
            count = min(_CHUNK, size - position)
            left = disk.read(first, count, position).ljust(count, b"\0")
            right = b"" if other is None else disk.read(second, count, position)
            right = right.ljust(count, b"\0")
            if left != right:
                differs = np.frombuffer(left, np.uint8) != np.frombuffer(right, np.uint8)
                return position + int(differs.argmax())
        return None
    finally:
        disk.close(first)
        if second >= 0:
            disk.close(second)
