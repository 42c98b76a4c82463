"""Files that an import reads: found, and what their names say of their rows."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

import attrs
from pyarrow import fs

from reput_arrow.codederrors import CodedError

_FORMS: Final = re.compile(r"\.(parquet|jsonl|ndjson|csv)(?:\.gz|\.zst)?$")
_NAME: Final = re.compile(r"(\d{20})-([0-9a-f]{8})-")
_NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"
_PARTS: Final = ("topic", "queue_id")
"""Columns that directories may be named by; days, hours and increments are no columns."""


@attrs.frozen
class Source:
    """One file of rows."""

    system: Any
    path: str
    size: int
    """Bytes of the file."""
    form: str
    named: dict[str, str]
    """Columns whose one value is in the names of directories, as text."""
    store: str
    """Digits that stand for the log that was exported; empty where the name has none."""
    first_offset: int
    """No row has a smaller physical offset, if all files of the store have that column."""


def find_sources(source: str) -> list[Source]:
    """Return the files below a directory, or the one file, in the order of stores and offsets.

    Raises:
        CodedError: it does not exist.
    """
    try:
        system, root = (
            fs.FileSystem.from_uri(source)
            if "://" in source
            else (fs.LocalFileSystem(), source.rstrip("/") or "/")
        )
        info = system.get_file_info(root)
        found = [info]
        if info.type == fs.FileType.Directory:
            found = system.get_file_info(fs.FileSelector(root, recursive=True))
    except (OSError, ValueError) as error:
        raise CodedError("NO_LOG", f"{source}: {error}") from error
    sources = [
        made
        for each in found
        if each.type == fs.FileType.File and (made := _source(system, root, each)) is not None
    ]
    if not sources:
        raise CodedError(
            "NO_LOG",
            f"{source}: no rows there; files that end in .parquet, .jsonl or .csv are expected, as "
            "`reput export` writes them",
        )
    return sorted(sources, key=lambda each: (each.store, each.first_offset, each.path))


def _source(system: Any, root: str, info: Any) -> Source | None:
    inside = info.path[len(root) :].lstrip("/") or info.base_name
    parts = inside.split("/")
    form = _FORMS.search(parts[-1])
    if form is None or any(part.startswith(("_", ".")) for part in parts):
        return None
    named = {}
    for part in parts[:-1]:
        name, mark, value = part.partition("=")
        if mark and name in _PARTS:
            named[name] = "" if value == _NO_NAME else unquote(value)
    name = _NAME.match(parts[-1])
    kind = "jsonl" if form[1] == "ndjson" else form[1]
    return Source(
        system,
        info.path,
        info.size,
        kind,
        named,
        name[2] if name else "",
        int(name[1]) if name else 0,
    )
