"""Log files on any file system that Arrow knows, as a `Disk`, through which the core reads.

A path with a scheme (``hdfs://…``, ``s3://…``) is opened by `pyarrow.fs`; one without is a local
file, which the system reads quicker. Only what reading takes is there: nothing is ever written.
"""

from __future__ import annotations

import builtins
import errno
import os
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from reput.files import Disk, Entry

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import FileSystem

_READ_AT_ONCE = 1 << 20


class _Entry(NamedTuple):
    """What the core asks of a directory's entry."""

    name: str
    path: str
    is_directory: bool
    size: int

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.is_directory

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return not self.is_directory

    def stat(self, *, follow_symlinks: bool = True) -> _Entry:
        return self

    @property
    def st_size(self) -> int:
        return self.size


class LocalDisk(Disk):
    """This machine's files.

    Args:
        only: name of the one file that listings show; all when left out.
    """

    def __init__(self, only: str | None = None) -> None:
        self._only = only

    def data_ranges(self, descriptor: int, start: int, end: int) -> builtins.list[tuple[int, int]]:
        """See `Disk.data_ranges`; small ranges are read without asking.

        A file in memory is gone through page by page up to its next hole, which took ten times as
        long as reading the few KiB near a cut.
        """
        if end - start <= _READ_AT_ONCE:
            return [(start, end)] if start < end else []
        return super().data_ranges(descriptor, start, end)

    def list(self, path: str) -> builtins.list[Entry]:
        """See `Disk.list`."""
        return [each for each in super().list(path) if self._only in (None, each.name)]


class ArrowDisk(Disk):
    """Reads files of one Arrow file system; thread-safe.

    Every operation that would change something is refused, and none reaches the system's own
    files: a descriptor of this disk is a number that the system may use for a file of its own.

    Args:
        system: the file system.
        only: name of the one file that listings show; all when left out.
    """

    def __init__(self, system: FileSystem, only: str | None = None) -> None:
        self._system = system
        self._only = only
        self._files: dict[int, NativeFile] = {}
        self._lock = threading.Lock()
        self._next = 0

    # ------------------------------------------------------------------ reading

    def open(
        self, path: str, *, write: bool = False, create: bool = False, fresh: bool = False
    ) -> int:
        """See `Disk.open`."""
        if write or create:
            _refuse(path)
        file = self._system.open_input_file(path)
        with self._lock:
            self._next += 1
            self._files[self._next] = file
            return self._next

    def close(self, descriptor: int) -> None:
        """See `Disk.close`."""
        with self._lock:
            file = self._files.pop(descriptor)
        file.close()

    def is_whole(self, descriptor: int, size: int) -> bool:
        """Whether the file has ``size`` bytes; such file systems do not tell if it was removed."""
        return self.size(descriptor) >= size

    def size(self, descriptor: int) -> int:
        """See `Disk.size`."""
        size: int = self._files[descriptor].size()
        return size

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """See `Disk.read`."""
        found: bytes = self._files[descriptor].read_at(size, position)
        return found

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """See `Disk.read_into`."""
        found = self.read(descriptor, len(buffer), position)
        buffer[: len(found)] = found
        return len(found)

    def data_ranges(self, descriptor: int, start: int, end: int) -> list[tuple[int, int]]:
        """Return all of it: such file systems do not tell where files are sparse."""
        return [(start, end)] if start < end else []

    def exists(self, path: str) -> bool:
        """See `Disk.exists`."""
        from pyarrow.fs import FileType

        return bool(self._system.get_file_info(path).type != FileType.NotFound)

    def modified_ms(self, path: str) -> int:
        """See `Disk.modified`."""
        found = self._system.get_file_info(path).mtime_ns
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return int(found) // 1_000_000

    def list(self, path: str) -> list[Any]:
        """See `Disk.list`."""
        from pyarrow.fs import FileSelector, FileType

        found = self._system.get_file_info(FileSelector(path, allow_not_found=True))
        entries = [
            _Entry(each.base_name, each.path, each.type == FileType.Directory, each.size or 0)
            for each in found
            if self._only in (None, each.base_name)
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def list_names(self, path: str) -> builtins.list[str]:
        """See `Disk.list_names`."""
        return [entry.name for entry in self.list(path)]

    # ------------------------------------------------------------------ what is refused

    def write_some(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refused."""
        _refuse()

    # One by one and not through `__getattr__`: each is there in `Disk`, and would be found.
    allocate = truncate = flush = map = map_as = map_to_read = rename = remove = (
        remove_directory
    ) = write_some
    remove_tree = identity = status = look_below = usage = lock = lock_shared = write_some
    lock_owner = make_one_directory = make_directory = flush_directory = replace = write_some
    finish_replacing = write_some


def _refuse(path: str | None = None) -> NoReturn:
    raise PermissionError(errno.EROFS, "files of this file system are only read", path)


def disk_of(path: str, only: str | None = None) -> tuple[Disk, str]:
    """Return the disk that a path is on, and the path there.

    Args:
        path: a URI, or a local path.
        only: name of the one file that listings of the disk show; all when left out.

    Raises:
        ValueError: a scheme unknown to Arrow, or a URI that is not valid; Arrow's text.
        OSError: what the scheme needs is not installed, or its server does not answer.
    """
    if path.startswith("file:/") and not path.startswith("file://"):
        path = path.removeprefix("file:")  # as Hadoop writes it
    if "://" not in path:
        return LocalDisk(only), os.path.abspath(path)
    system, inside = _system_of(path)
    from pyarrow.fs import LocalFileSystem

    if isinstance(system, LocalFileSystem):
        return LocalDisk(only), inside
    return ArrowDisk(system, only), inside


def _system_of(uri: str) -> tuple[FileSystem, str]:
    from pyarrow.fs import FileSystem

    found: tuple[FileSystem, str] = FileSystem.from_uri(uri)
    return found


def below(path: str, name: str) -> str:
    """Return the path of ``name`` in the directory ``path``; settings of a URI stay at its end."""
    head, mark, settings = _cut(path)
    return f"{head.rstrip('/')}/{name}{mark}{settings}"


def above(path: str) -> str:
    """Return the path of the directory that holds ``path``."""
    head, mark, settings = _cut(path)
    return f"{head.rstrip('/').rpartition('/')[0] or '/'}{mark}{settings}"


def _cut(path: str) -> tuple[str, str, str]:
    return path.partition("?") if "://" in path else (path, "", "")
