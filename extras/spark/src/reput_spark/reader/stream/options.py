"""Options of a stream out of a log: those of a read, and a few more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import attrs

from reput_arrow.textoptions import by_name, refusal
from reput_spark.errors import SparkReputError
from reput_spark.reader.options import ReadOptions

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
STREAM_OPTIONS: Final = {
    "starting": "where a new query begins: `earliest` (when left out), `latest`, a physical offset "
    "(at the first record there or after it), or a store time as ISO 8601",
    "max_bytes_per_batch": "bytes of the logs that a batch reads at most, but at least one record; "
    "no limit when left out",
    "max_records_per_batch": "records of the logs that a batch reads at most, also of records that "
    "other options exclude",
    "fail_on_data_loss": "`true` (when left out): fail if files were removed before the query read "
    "them, or if the log was recreated; `false`: continue at the log's first byte, or in a "
    "recreated log at the same physical offset if a record ends there; also `failOnDataLoss`",
}
"""Every option that only a stream has, and what it means."""
_SPARKS_SPELLING: Final = "failondataloss"
_COUNT_MAX: Final = (1 << 63) - 1
_OURS: Final = (*STREAM_OPTIONS, _SPARKS_SPELLING)


@attrs.frozen(kw_only=True)
class StreamOptions:
    """Options of a stream out of a log."""

    read: ReadOptions
    """As of a read; what they select is selected out of every batch."""
    starting: str | int = EARLIEST
    """`EARLIEST`, `LATEST`, or a physical offset."""
    starting_timestamp: int | None = None
    """ms; instead of ``starting``."""
    max_bytes: int | None = None
    max_records: int | None = None
    fail_on_data_loss: bool = True

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Read what Spark hands over: texts by name, whatever its case.

        Raises:
            SparkReputError: an unknown option, or a value that it does not take.
        """
        given = by_name(options)
        read = ReadOptions.parse(given, _OURS)
        if read.bounds is not None and read.bounds.ends:
            raise SparkReputError("OPTION", "option 'ending_offsets': a stream has no end")
        if "starting" in given and (read.bounds is not None or read.group is not None):
            raise SparkReputError(
                "OPTION",
                "option 'starting': starting_offsets, or group, say where the query begins",
            )
        starting, timestamp = _starting(given.get("starting", EARLIEST))
        return cls(
            read=read,
            starting=starting,
            starting_timestamp=timestamp,
            max_bytes=_count("max_bytes_per_batch", given),
            max_records=_count("max_records_per_batch", given),
            fail_on_data_loss=_flag(given),
        )

    @staticmethod
    def names() -> tuple[str, ...]:
        """Return names of the options that only a stream has, in lower case."""
        return _OURS


def _starting(text: str) -> tuple[str | int, int | None]:
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return word, None
    if word.isascii() and word.isdigit() and len(word) < 20:
        return int(word), None
    expected = f"option 'starting' is {text!r}; earliest, latest, a physical offset, or a time"
    try:
        int(word)
    except ValueError:
        try:
            read = ReadOptions.parse({"start": text})
        except SparkReputError:
            raise SparkReputError("OPTION", f"{expected} as 2026-01-31T12:00 expected") from None
        return EARLIEST, read.start_timestamp
    raise SparkReputError("OPTION", f"{expected} expected")


def _count(name: str, given: Mapping[str, str]) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not 1 <= value <= _COUNT_MAX:
        raise refusal(name, text, f"1 to {_COUNT_MAX}")
    return value


def _flag(given: Mapping[str, str]) -> bool:
    found = {
        given[name].lower() for name in ("fail_on_data_loss", _SPARKS_SPELLING) if name in given
    } or {"true"}
    if len(found) > 1 or not found <= {"true", "false"}:
        raise SparkReputError(
            "OPTION", f"option 'fail_on_data_loss' is {' and '.join(sorted(found))}; true or false"
        )
    return found == {"true"}
