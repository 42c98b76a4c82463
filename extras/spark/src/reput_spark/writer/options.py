"""Options of a stream into a store: parsed, checked, and kept as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Self

import attrs

from reput.plugin import INT32_MAX
from reput_arrow.localpaths import local_path
from reput_arrow.logwriter.stagingdirectories import is_name
from reput_arrow.logwriter.writeoptions import FILE_SIZE_MIN, LOCK_TIMEOUT
from reput_arrow.textoptions import (
    by_name,
    flag,
    refusal,
    refuse_unknown,
    seconds,
    whole_number,
)
from reput_spark.errors import SparkReputError

SINK_OPTIONS: Final = {
    "path": "the directory of a store, or of a new store: a path, or a `file:` URI",
    "txn_app_id": "identity of the writer, instead of the query's id; it does not change if you "
    "start with a new checkpoint",
    "lock_timeout": "seconds to wait for a process that has the store open (60)",
    "plugins": "names of a new store's plugins, separated by commas; the default plugins when left "
    "out",
    "file_size": "bytes of a log file, for a new store (1073741824)",
    "stamp": "`true`: each message gets the property `reput_stamp`; after an interrupted commit, "
    "the next one finds its rows by this property",
    "follow_links": "`true`: follow symbolic links below the directory, as for `reput.open`",
}
"""Every option of a stream into a store, and what it means."""
_SPARKS: Final = ("checkpointlocation", "queryname")
_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")


@attrs.frozen(kw_only=True)
class SinkOptions:
    """Options of a stream into a store."""

    path: str
    """Absolute."""
    txn_app_id: str | None = None
    lock_timeout: float = LOCK_TIMEOUT
    plugins: tuple[str, ...] | None = None
    file_size: int | None = None
    stamp: bool = False
    follow_links: bool = False
    """As for `reput.open`."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Read what Spark hands over: texts by name, whatever its case.

        Raises:
            SparkReputError: an unknown option (with the one that was meant, perhaps), or a value
                that it does not take.
        """
        given = by_name(options)
        refuse_unknown(given, SINK_OPTIONS, " of a stream into a store", _SPARKS)
        return cls(
            path=_path(given.get("path", "")),
            txn_app_id=_key(given),
            lock_timeout=seconds("lock_timeout", given, LOCK_TIMEOUT),
            plugins=_words(given.get("plugins")),
            file_size=whole_number("file_size", given, FILE_SIZE_MIN, INT32_MAX),
            stamp=flag("stamp", given),
            follow_links=flag("follow_links", given),
        )


def check_store(options: SinkOptions, file_size: int, plugins: Iterable[str]) -> None:
    """Refuse a store that contradicts the options.

    Args:
        options: of the stream.
        file_size: that of the store, bytes.
        plugins: those of the store; more than the options name may have been added since.

    Raises:
        SparkReputError: an option for new stores that this one contradicts.
    """
    if options.file_size not in (None, file_size):
        raise SparkReputError(
            "OPTION",
            f"option 'file_size' is {options.file_size}; the files of {options.path} have "
            f"{file_size} bytes: leave the option out, it is for new stores",
        )
    missing = sorted(set(options.plugins or ()).difference(plugins))
    if missing:
        raise SparkReputError(
            "OPTION",
            f"option 'plugins': {options.path} does without {', '.join(missing)}; add it with "
            "reput.open(path, plugins=[...]) first, or leave the option out, it is for new stores",
        )


def is_key(text: str) -> bool:
    """Return whether a directory can be named after ``text``."""
    return _KEY.fullmatch(text) is not None


def _path(text: str) -> str:
    if not text:
        raise SparkReputError("OPTION", "no path was given: start(path)")
    return local_path(text)


def _key(given: Mapping[str, str]) -> str | None:
    text = given.get("txn_app_id")
    if text is not None and (not is_key(text) or is_name(text)):  # a write's directory
        raise refusal("txn_app_id", text, "up to 128 letters, digits and _ . -")
    return text


def _words(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(word.strip() for word in text.split(",") if word.strip())
