"""Paths of stores that are written: those of a file system that can map, lock and rename."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote

from reput_arrow.codederrors import CodedError

_LOCAL_URI: Final = re.compile(r"file://(?:localhost)?(?=/)", re.IGNORECASE)
_LOCAL_HADOOP: Final = re.compile(r"file:(?=/(?!/))", re.IGNORECASE)
_URI: Final = re.compile(r"file:|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


def local_path(path: str) -> str:
    """Return the absolute path of ``path``, which is one of the file system, or a ``file:`` URI.

    As for reads, ``%20`` in ``file:///my%20store`` is a space, and in ``file:/my%20store``, which
    is how Hadoop writes paths, it stands for itself.

    Raises:
        CodedError: a URI of something else, of another machine, or one that is relative.
    """
    found = _LOCAL_URI.match(path)
    if found is not None:
        return os.path.abspath(unquote(path[found.end() :]))
    found = _LOCAL_HADOOP.match(path)
    if found is not None:
        return os.path.abspath(path[found.end() :])
    if _URI.match(path) is not None:
        raise CodedError(
            "OPTION",
            f"{path}: a store is written where files can be mapped, locked and renamed; name a "
            "directory that the driver and all executors see under the same path, and copy it",
        )
    return os.path.abspath(path)
