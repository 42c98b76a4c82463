"""Bytes of a file of the store, such as the bytes of a finding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_web.errors import BadRequestError, NotThereError

if TYPE_CHECKING:
    from reput_web.readmodel.openedstore import OpenedStore

_SHOWN: Final = 1_024
_LINE: Final = 16
_BEFORE: Final = 4 * _LINE
_HIDDEN: Final = frozenset({"config"})
"""Directories of a broker that may hold secrets."""


@attrs.frozen(kw_only=True)
class FileBytes:
    """A part of a file."""

    file: str
    """Relative to the store's directory."""
    file_size: int
    position: int
    """Of the first byte shown."""
    data: bytes
    marked: tuple[int, int]
    """The bytes that were asked for: positions of the first one and after the last one."""
    before: int | None
    """Position of the part before; None at the beginning."""
    after: int | None

    @property
    def lines(self) -> list[tuple[int, list[tuple[bool, str]], list[tuple[bool, str]]]]:
        """Return for each line its position, and runs of hex and of text, each marked or not."""
        found = []
        for at in range(0, len(self.data), _LINE):
            start = self.position + at
            end = min(start + _LINE, self.position + len(self.data))
            low, high = (min(max(each, start), end) for each in self.marked)
            cuts = [(start, low, False), (low, high, True), (high, end, False)]
            parts = [
                (self.data[first - self.position : last - self.position], is_marked)
                for first, last, is_marked in cuts
                if first < last
            ]
            runs = [(is_marked, part.hex(" ")) for part, is_marked in parts]
            found.append((start, runs, [(is_marked, _text(part)) for part, is_marked in parts]))
        return found


def _text(part: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in part)


def can_be_shown(file: str) -> bool:
    """Return whether the bytes of a file are shown."""
    parts = file.split("/")
    is_inside = not file.startswith("/") and not {"", ".", ".."} & {*parts}
    return is_inside and "\0" not in file and parts[0] not in _HIDDEN


def bytes_of(opened: OpenedStore, file: str, position: int, size: int) -> FileBytes:
    """Return the bytes around a position.

    Args:
        opened: the store.
        file: relative to the store's directory.
        position: of the first byte that is asked for.
        size: bytes that are asked for; 0 if this is not known.

    Raises:
        BadRequestError: the file is not one of the store, or may hold secrets.
        NotThereError: it does not exist.
    """
    if not can_be_shown(file):
        raise BadRequestError("file: a file of the store, without those of config.")
    from reput_tools.offline import inspect_store

    disk = inspect_store(opened.root, follow_links=opened.follow_links).disk
    path = os.path.join(opened.root, *file.split("/"))
    try:
        descriptor = disk.open(path, write=False)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise NotThereError(f"The store has no file {file!r}.") from None
    try:
        file_size = disk.size(descriptor)
        first = max(min(position, file_size) - _BEFORE, 0) // _LINE * _LINE
        data = disk.read(descriptor, _SHOWN, first)
    finally:
        disk.close(descriptor)
    end = first + len(data)
    return FileBytes(
        file=file,
        file_size=file_size,
        position=first,
        data=data,
        marked=(position, position + max(size, 1)),
        before=max(first - _SHOWN, 0) + _BEFORE if first else None,
        after=end + _BEFORE if end < file_size else None,
    )


def document_of(found: FileBytes) -> dict[str, Any]:
    """Return plain values."""
    return attrs.asdict(found) | {"data": found.data.hex()}
