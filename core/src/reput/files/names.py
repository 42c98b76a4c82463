"""Names of files and directories in a store: which are ours, and which are safe."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["FILE_NAME_DIGITS", "OWN_DIRECTORY", "file_name", "is_file_name", "is_safe_name"]

OWN_DIRECTORY: Final = "reput"
"""Everything of ours that RocketMQ does not know lies in this one directory of a store."""

FILE_NAME_DIGITS: Final = 20


def file_name(base_offset: int) -> str:
    """Name of the file whose first byte is at ``base_offset``."""
    return f"{base_offset:0{FILE_NAME_DIGITS}d}"


def is_file_name(name: str) -> bool:
    """Whether ``name`` is one of `file_name`, an offset in digits."""
    return len(name) == FILE_NAME_DIGITS and name.isascii() and name.isdigit()


def is_safe_name(name: str) -> bool:
    """Whether ``name`` can be one step of a path and nothing else."""
    if not name or name in (".", "..") or "\0" in name or "/" in name:
        return False
    return os.sep not in name and (os.altsep is None or os.altsep not in name)
