"""Options of a write: parsed, checked, and kept as plain values that go to executors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from reput.plugin import INT32_MAX
from reput.record.layout import BLANK_MIN_SIZE, RECORD_MIN_SIZE
from reput_arrow.codederrors import CodedError
from reput_arrow.textoptions import (
    by_name,
    flag,
    refusal,
    refuse_unknown,
    seconds,
    whole_number,
)

FILE_SIZE_MIN: Final = RECORD_MIN_SIZE + BLANK_MIN_SIZE
"""Bytes of a log file that holds one record and a blank."""
LOCK_TIMEOUT: Final = 60.0
"""Seconds."""
KEPT: Final = ("store_timestamp", "store_host")
"""Columns that a write can keep, where each record otherwise gets the store's own."""
WRITE_OPTIONS: Final = {
    "path": "the directory of a store, or of a new store: a path, or a `file:` URI",
    "file_size": "bytes of a log file, for a new store (1073741824)",
    "keep": "columns to keep that otherwise the store assigns: `store_timestamp`, `store_host`",
    "raw": "`true`: take also messages that a plugin of the store would act on, as they are",
    "write_id": "a name for this write: where one of that name is published, nothing is written",
    "stamp": "`true`: each message gets the property `reput_stamp`; after an interrupted write, "
    "the next one finds its rows by this property",
    "lock_timeout": "seconds to wait for a process that has the store open (60)",
    "dispatch": "`false`, with keep or raw: leave queues and indexes to who opens the store next",
    "follow_links": "`true`: follow symbolic links below the directory, as for `reput.open`",
}
"""Every option of a write, and what it means."""
_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


@attrs.frozen(kw_only=True)
class WriteOptions:
    """What a write was asked for."""

    path: str
    file_size: int | None = None
    """Bytes; None: that of the store, or the default of a new one."""
    keep: frozenset[str] = frozenset()
    raw: bool = False
    write_id: str | None = None
    stamp: bool = False
    lock_timeout: float = LOCK_TIMEOUT
    """Seconds."""
    dispatch: bool = True
    follow_links: bool = False
    """As for `reput.open`."""
    small: bool = False
    """Whether a new store gets small files, which grow, unless `file_size` is given."""

    @property
    def has_small_files(self) -> bool:
        """Whether the files of a new store are small, and grow."""
        return self.small and self.file_size is None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Read what Spark hands over: texts by name, whatever its case.

        Raises:
            CodedError: an unknown option (with the one that was meant, perhaps), or a value
                that it does not take.
        """
        given = by_name(options)
        refuse_unknown(given, WRITE_OPTIONS, " of a write")
        if not given.get("path"):
            raise CodedError("OPTION", "no path was given: save(path)")
        return cls(
            path=given["path"],
            file_size=whole_number("file_size", given, FILE_SIZE_MIN, INT32_MAX),
            keep=_kept(given.get("keep")),
            raw=flag("raw", given),
            write_id=_name("write_id", given),
            stamp=_stamp(given),
            lock_timeout=seconds("lock_timeout", given, LOCK_TIMEOUT),
            dispatch=flag("dispatch", given, "true"),
            follow_links=flag("follow_links", given),
        )


def _kept(text: str | None) -> frozenset[str]:
    words = frozenset(word.strip() for word in (text or "").split(",") if word.strip())
    if not words <= set(KEPT):
        raise refusal("keep", text, " or ".join(KEPT))
    return words


def _stamp(given: Mapping[str, str]) -> bool:
    stamp = flag("stamp", given)
    if stamp and (_kept(given.get("keep")) or flag("raw", given)):
        raise CodedError(
            "OPTION",
            "option 'stamp' is for messages that are put, and keep and raw copy messages as they "
            "are: leave out one of them",
        )
    return stamp


def _name(name: str, given: Mapping[str, str]) -> str | None:
    text = given.get(name)
    if text is not None and _ID.fullmatch(text) is None:
        raise refusal(name, text, "up to 200 letters, digits and _ . : -")
    return text
