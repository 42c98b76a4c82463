"""Names of files and directories in a store."""

from __future__ import annotations

import os
from typing import Final

OWN_DIRECTORY: Final = "reput"
"""The directory of a store with all files that reput writes and RocketMQ does not know."""

FILE_NAME_DIGITS: Final = 20
_NAME_SIZE_MAX: Final = 255
_FILE_NAME: Final = f"%0{FILE_NAME_DIGITS}d"


def file_name(base_offset: int) -> str:
    """Return the name of the file whose first byte is at ``base_offset``."""
    return _FILE_NAME % base_offset


def is_file_name(name: str) -> bool:
    """Whether ``name`` is an offset in digits, as `file_name` returns."""
    return len(name) == FILE_NAME_DIGITS and name.isascii() and name.isdigit()


def is_system_name(name: str) -> bool:
    """Whether ``name`` is hidden, or ``lost+found``: neither reput nor a broker uses such names.

    File systems, desktops and version control put them into directories: snapshots, ``.nfs…`` for a
    file that was removed while it was open.
    """
    return name.startswith(".") or name == "lost+found"


def is_safe_name(name: str) -> bool:
    """Whether ``name`` can be a single step of a path: no separator, 255 bytes at most."""
    if not name or name in (".", "..") or "\0" in name or "/" in name:
        return False
    if len(name.encode(errors="surrogatepass")) > _NAME_SIZE_MAX:
        return False
    return os.sep not in name and (os.altsep is None or os.altsep not in name)
