"""Damage to files, and ways to see what was changed in a directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping

import attrs

# --------------------------------------------------------------------------- single damages


def torn_at(path: str | os.PathLike[str], position: int) -> None:
    """Cut the file at ``position``."""
    os.truncate(path, position)


def emptied(path: str | os.PathLike[str]) -> None:
    """Cut the file to no bytes."""
    torn_at(path, 0)


def zeroed_from(path: str | os.PathLike[str], position: int, size: int | None = None) -> None:
    """Make ``size`` bytes from ``position`` on zero, or all to the end; the file size stays."""
    with open(path, "r+b") as file:
        rest = os.fstat(file.fileno()).st_size - position
        file.seek(position)
        file.write(b"\0" * (rest if size is None else min(size, rest)))


def garbled_at(path: str | os.PathLike[str], position: int, mask: int = 0xFF) -> None:
    """Flip the bits of ``mask`` in the byte at ``position``."""
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ mask]))


def grown_by(path: str | os.PathLike[str], junk: bytes) -> None:
    """Append ``junk`` to the file."""
    with open(path, "ab") as file:
        file.write(junk)


def removed(path: str | os.PathLike[str]) -> None:
    """Remove the file."""
    os.unlink(path)


# --------------------------------------------------------------------------- many damages


@attrs.frozen
class FileDamage:
    """One way to damage a file."""

    kind: str
    """``"emptied"``, ``"torn"``, ``"zeroed"``, ``"garbled"``, ``"grown"`` or ``"removed"``."""
    position: int = 0
    """File position at which it begins."""

    def apply(self, path: str | os.PathLike[str]) -> None:
        """Damage the file at ``path``."""
        match self.kind:
            case "emptied":
                emptied(path)
            case "torn":
                torn_at(path, self.position)
            case "zeroed":
                zeroed_from(path, self.position)
            case "garbled":
                garbled_at(path, self.position)
            case "grown":
                grown_by(path, b"\xa5junk")
            case "removed":
                removed(path)
            case _:
                raise ValueError(f"no damage is called {self.kind!r}")


def damages_of(path: str | os.PathLike[str], places: int = 8) -> Iterator[FileDamage]:
    """Return damages worth trying on a file: cuts, zeros, flipped bytes at some places, and more.

    The places are spread over the bytes in use, as a file may be mostly unused space. A damage that
    would change nothing is left out.
    """
    with open(path, "rb") as file:
        data = file.read()
    used = len(data.rstrip(b"\0")) or len(data)
    for position in _spread(1, len(data) - 1, places) | _spread(1, used - 1, places):
        yield FileDamage("torn", position)
    for position in _spread(0, used - 1, places):
        yield FileDamage("garbled", position)
        if data[position:].strip(b"\0"):
            yield FileDamage("zeroed", position)
    if data:
        yield FileDamage("emptied")
    yield FileDamage("grown", len(data))
    yield FileDamage("removed")


def _spread(first: int, last: int, count: int) -> set[int]:
    """Return about ``count`` numbers from ``first`` to ``last``, with both and their neighbours."""
    if last < first:
        return set()
    step = max((last - first) // max(count, 1), 1)
    spread = {*range(first, last + 1, step), first, last}
    return {*spread, min(first + 1, last), max(last - 1, first)}


# --------------------------------------------------------------------------- looking


def files_under(*paths: str | os.PathLike[str]) -> list[str]:
    """Return all files in the directories of ``paths``, and the files of ``paths``; sorted."""
    found = []
    for path in paths:
        if os.path.isfile(path):
            found.append(os.fspath(path))
        for directory, _, names in os.walk(path):
            found.extend(os.path.join(directory, name) for name in names)
    return sorted(found)


def snapshot(
    root: str | os.PathLike[str], paths: Iterable[str | os.PathLike[str]] | None = None
) -> dict[str, bytes]:
    """Return the bytes of all files under ``paths`` (default ``root``), by name below ``root``."""
    files = {}
    for path in files_under(*([root] if paths is None else paths)):
        with open(path, "rb") as file:
            files[os.path.relpath(path, root)] = file.read()
    return files


def place(files: Mapping[str, bytes], root: str | os.PathLike[str]) -> None:
    """Replace the contents of a directory by a `snapshot`."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for name, data in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


def traces(root: str | os.PathLike[str]) -> dict[str, tuple[int, int, int]]:
    """Return inode, size and time of change of everything under ``root``: a write changes these."""
    found = {}
    for directory, names, files in os.walk(root):
        for name in [".", *names, *files]:
            path = os.path.join(directory, name)
            about = os.lstat(path)
            found[os.path.relpath(path, root)] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def open_files_under(root: str | os.PathLike[str]) -> list[str] | None:
    """Return files below ``root`` that this process has open or mapped; None if not known."""
    prefix = os.path.join(os.path.realpath(root), "")
    try:
        names = os.listdir("/proc/self/fd")
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            held = [line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/" in line]
    except OSError:
        return None
    for name in names:
        try:
            held.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the descriptor with which the list was read
            continue
    return sorted(path for path in held if path.startswith(prefix))
