"""Find the commit logs that paths lead to.

A path may be a store's directory, a directory of log files, one log file, or a directory that
holds the stores of several brokers; in each place the log may be one that DLedger writes. A path
with ``*``, ``?`` or ``[…]`` stands for all that it matches; in a URI only ``*`` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import attrs

from reput.errors import ConfigError, ReputError, StoreNotFoundError
from reput.files import is_file_name
from reput.log import LOG_SECTION, StateFile, files_grow
from reput.record import ENTRY_HEAD_SIZE
from reput.record.layout import BLANK_MAGIC, MAGIC_V1, MAGIC_V2
from reput.storefiles import Manifest
from reput_arrow.logs.arrowdisk import above, below, disk_of
from reput_arrow.logs.logplace import COMMIT_LOG, LEDGER, LogPlace

if TYPE_CHECKING:
    from reput.files import Disk

_KIND_SIZE = ENTRY_HEAD_SIZE + 8
_ENTRY_MAGIC = b"\0\0\0\1"  # no record is so small


def find_logs(paths: Iterable[str]) -> list[LogPlace]:
    """Return the logs that paths lead to, in the order of the paths.

    Raises:
        StoreNotFoundError: nothing there, or no log; the text says what was expected.
        ConfigError: there is no path.
    """
    found: list[LogPlace] = []
    for path in paths:
        try:
            places = [place for each in _matches(path) for place in _logs_at_path(each)]
        except (OSError, ValueError) as error:
            raise StoreNotFoundError(path, str(error)) from error
        if not places:
            raise StoreNotFoundError(
                path,
                "no log there; expected a store (a directory that holds commitlog/ or "
                "dledger-…/data/), a directory of log files (names of 20 digits), one such file, "
                "or a directory of stores",
            )
        found += places
    if not found:
        raise ConfigError("read", "path", "none was given; name a store, or several")
    return found


def _matches(path: str) -> list[str]:
    """Return what a pattern stands for, in the order of names; a path that is none by itself."""
    if not _is_pattern(path):
        return [path]
    disk, inside = disk_of(path)
    if disk.exists(inside):  # names may have such letters
        return [path]
    found = ["/" if inside.startswith("/") else ""]  # a bucket's name begins without it
    for name in inside.strip("/").split("/"):
        found = [made for parent in found for made in _children(disk, parent, name)]
    if "://" not in path:
        return found
    head, mark, settings = path.partition("?")
    start = head.rstrip("/").removesuffix(inside.strip("/"))
    return [f"{start}{each.lstrip('/')}{mark}{settings}" for each in found]


def _is_pattern(name: str) -> bool:
    # In a URI a question mark begins its settings, and brackets are not allowed.
    return any(each in name for each in ("*" if "://" in name else "*?["))


def _children(disk: Disk, parent: str, name: str) -> list[str]:
    """Return the paths below ``parent`` that ``name``, a name or a pattern, stands for."""
    head = parent if parent.endswith("/") or not parent else f"{parent}/"
    if not _is_pattern(name):
        return [f"{head}{name}"] if disk.exists(f"{head}{name}") else []
    return [
        f"{head}{each.name}"
        for each in disk.list(parent)
        if fnmatchcase(each.name, name) and (each.is_dir() or is_file_name(each.name))
    ]


def _logs_at_path(path: str) -> list[LogPlace]:
    disk, inside = disk_of(path)
    shown = path if "://" in path else inside
    return _logs_at(path.rstrip("/") or "/", shown, disk, inside.rstrip("/") or "/")


def _logs_at(store: str, shown: str, disk: Disk, path: str) -> list[LogPlace]:
    """Return the logs at ``path`` of a disk, which the user knows as ``shown``."""
    name = os.path.basename(path)
    if is_file_name(name):
        parent = os.path.dirname(path)
        place = _place(store, above(shown), disk, parent, name)
        if place is not None:
            return [attrs.evolve(place, only_base=int(name))]
    found = _logs_of_store(store, shown, disk, path)
    if found:
        return found
    for entry in disk.list(path):
        if entry.is_dir():
            inside = below(shown, entry.name)
            found += _logs_of_store(below(store, entry.name), inside, disk, f"{path}/{entry.name}")
    return found


def _logs_of_store(store: str, shown: str, disk: Disk, path: str) -> list[LogPlace]:
    """Return the log whose files are in ``path``, or the logs of the store that ``path`` is."""
    place = _place(store, shown, disk, path)
    if place is not None:
        return [place]
    found = []
    for entry in disk.list(path):
        if entry.name in ("commitlog", "data"):
            inside = entry.name
        elif entry.name.startswith("dledger-"):
            inside = f"{entry.name}/data"
        else:
            continue
        place = _place(store, below(shown, inside), disk, f"{path}/{inside}")
        if place is not None:
            found.append(place)
    return found


def _place(
    store: str, shown: str, disk: Disk, directory: str, name: str | None = None
) -> LogPlace | None:
    """Return the log whose files, or whose one file ``name``, are in a directory; None without."""
    if not disk.exists(directory):
        return None
    files = [
        (f"{directory}/{entry.name}", entry.stat().st_size)
        for entry in disk.list(directory)
        if is_file_name(entry.name) and name in (None, entry.name) and entry.is_file()
    ]
    files = [(path, size) for path, size in files if size > 0]  # a crash may leave an empty one
    if not files:
        return None
    # The first file tells, unless its first bytes are damaged.
    kinds = (_kind_of(disk.read_file(path, _KIND_SIZE)) for path, _ in files)
    kind = next((kind for kind in kinds if kind is not None), COMMIT_LOG)
    size, grows = files[0][1], False
    if kind == COMMIT_LOG and name is None and (len(files) == 1 or files[-1][1] != size):
        size, grows = _recorded_size(disk, directory, size)
    return LogPlace(store, shown, size, kind=kind, grows=grows)


def _recorded_size(disk: Disk, directory: str, size: int) -> tuple[int, bool]:
    """Return the size of a full file, and whether files grow, by the manifest beside a log.

    Args:
        disk: that holds it.
        directory: of the log's files.
        size: of the first file.
    """
    try:
        manifest = Manifest.of(StateFile.of(os.path.dirname(directory), disk))
    except (ReputError, OSError):
        return size, False
    sections = {} if manifest is None else manifest.config
    full = sections.get(LOG_SECTION, {}).get("file_size")
    if not files_grow(sections) or type(full) is not int or full < size:
        return size, False
    return full, True


def _kind_of(head: bytes) -> str | None:
    """Return the kind of log whose file begins with ``head``; None where ``head`` does not tell."""
    magics = (MAGIC_V1, MAGIC_V2, BLANK_MAGIC)
    if int.from_bytes(head[4:8], "big") in magics:
        return COMMIT_LOG
    # An entry begins with a small number, or the record in it has its magic after the head.
    record = head[ENTRY_HEAD_SIZE + 4 : ENTRY_HEAD_SIZE + 8]
    is_entry = head[:4] == _ENTRY_MAGIC or int.from_bytes(record, "big") in magics
    return LEDGER if is_entry else None
