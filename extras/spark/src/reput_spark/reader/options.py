"""Options of the data source: read, checked, and kept as plain values that go to executors."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from reput_arrow.reader.queuebounds import QueueBounds
from reput_arrow.reader.selection import BATCH_ROWS, Selection
from reput_arrow.textoptions import by_name, refusal, refuse_unknown
from reput_spark.errors import SparkReputError
from reput_tools.offline import SPLIT_SIZE

CORRUPT: Final = ("fail", "skip", "collect")
OPTIONS: Final = {
    "path": "a store, a directory of log files, one such file, or a directory of stores",
    "paths": "a JSON list of such paths; `load([…])` makes it",
    "columns": "the columns to read, if you give no schema: names separated by commas, or `*` for "
    "all columns",
    "topic": "only what is in the queues of these topics, separated by commas",
    "queue_id": "only these queues, separated by commas",
    "min_offset": "only records that begin at this physical offset or after it",
    "max_offset": "only records that begin before this physical offset",
    "min_queue_offset": "first queue offset wanted",
    "max_queue_offset": "queue offset after the last one wanted",
    "key": "only messages of `topic` with this key: UNIQ_KEY, or a word of KEYS",
    "starting_offsets": "first queue offsets wanted: JSON by topic and queue; -2 for all",
    "ending_offsets": "queue offsets after the last ones wanted, likewise; -1 for all",
    "group": "a consumer group: only what it has not consumed, by the offsets of the store",
    "start": "store time of the oldest message wanted: ms since the epoch, or ISO 8601",
    "end": "only messages stored before this time; same forms as `start`",
    "filter": "a condition in SQL92 on properties, or tags; needs reput-filter",
    "filter_kind": "`SQL92` (when left out) or `TAG`",
    "corrupt": "at damage: `fail` (when left out), `skip` it, or `collect` it as rows",
    "check_crc": "`true`: verify the checksum of every body",
    "raw": "`true`: bodies that producers compressed stay compressed, and `sys_flag` keeps its "
    "stored value",
    "split_size": "the approximate number of bytes that a task reads (268435456), or `file`: each "
    "task reads one file",
    "batch_rows": "the largest number of rows in an Arrow batch (8192)",
    "pruning": "`false`: always scan the log, even if the queues or the index list the messages",
}
"""Every option of a read, and what it means."""
_GONE: Final = {
    "pushdown": "use the options topic, queue_id, min_offset, min_queue_offset, key, start, … "
    "instead: they hold for every query of the frame, and read only what they ask for",
}
"""Options that there were, and what to do without them."""
_OFFSETS: Final = ("starting_offsets", "ending_offsets")
_KAFKAS: Final = {"startingoffsets": "starting_offsets", "endingoffsets": "ending_offsets"}
"""Names that Spark's source for Kafka has for these."""
_INT32_MAX: Final = (1 << 31) - 1
_INT64_MAX: Final = (1 << 63) - 1
_SPLIT_SIZE_MIN: Final = 1 << 16
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@attrs.frozen(kw_only=True)
class ReadOptions(Selection):
    """Options of a read, as Spark passes them."""

    raw: bool = False
    columns: tuple[str, ...] | None = None
    """Of a frame without a schema; None for those of `load` alone."""

    @classmethod
    def parse(cls, options: Mapping[str, str], others: Collection[str] = ()) -> ReadOptions:
        """Read what Spark hands over: texts by name, whatever its case.

        Args:
            options: texts by name.
            others: names of options that do not belong to a read, and are ignored.

        Raises:
            SparkReputError: an unknown option (with the one that was meant, perhaps), or a value
                that it does not take.
        """
        given = {_KAFKAS.get(name, name): text for name, text in by_name(options).items()}
        for name in _GONE.keys() & given.keys():
            raise SparkReputError("OPTION", f"there is no option {name!r} any more; {_GONE[name]}")
        refuse_unknown(given, sorted({*OPTIONS, *others}))
        topics, bounds = _words("topic", given), _bounds(given)
        queue_offsets = [_number(f"{name}_queue_offset", given) for name in ("min", "max")]
        if "key" in given and (topics is None or not given["key"]):
            raise refusal("key", given["key"], "a string, and the option topic beside it,")
        if bounds is not None:
            topics = bounds.topics if topics is None else topics & bounds.topics
        return cls(
            paths=_paths(given),
            columns=_columns(given),
            topics=topics,
            queue_ids=_numbers("queue_id", given),
            min_offset=_number("min_offset", given),
            max_offset=_number("max_offset", given),
            min_queue_offset=queue_offsets[0],
            max_queue_offset=queue_offsets[1],
            is_queued=topics is not None or queue_offsets != [None, None] or "group" in given,
            key=given.get("key"),
            bounds=bounds,
            group=given.get("group"),
            start_timestamp=_time("start", given),
            end_timestamp=_time("end", given),
            filter=_filter(given),
            corrupt=_choice("corrupt", given, CORRUPT),
            check_crc=_flag("check_crc", given),
            raw=_flag("raw", given),
            split_size=_split_size(given),
            batch_rows=_number("batch_rows", given, 1, _INT32_MAX) or BATCH_ROWS,
            prunes=_choice("pruning", given, ("true", "false")) == "true",
        )


def without_table_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without the ones Spark adds while it creates a table.

    Spark passes a table's options twice, once with a prefix, with its own properties and
    those of ``TBLPROPERTIES``; the provider is there for tables only.
    """
    given = by_name(options)
    if "provider" not in given:
        return given
    prefix = "option."
    meant = {name.removeprefix(prefix) for name in given if name.startswith(prefix)}
    return {name: value for name, value in given.items() if name == "path" or name in meant}


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    if "paths" in given:
        try:
            found = json.loads(given["paths"])
        except ValueError as error:
            raise refusal("paths", given["paths"], f"a JSON list ({error})") from None
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise refusal("paths", given["paths"], "a JSON list of paths")
        return tuple(found)
    return (given["path"],) if given.get("path") else ()


def _columns(given: Mapping[str, str]) -> tuple[str, ...] | None:
    text = given.get("columns")
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise refusal("columns", text, "names of columns, each once, or *")
    return names


def _words(name: str, given: Mapping[str, str]) -> frozenset[str] | None:
    text = given.get(name)
    if text is None:
        return None
    words = frozenset(word.strip() for word in text.split(",") if word.strip())
    if not words:  # nothing would be found, which is never what was meant
        raise refusal(name, text, "one or more, commas between them,")
    return words


def _numbers(name: str, given: Mapping[str, str]) -> frozenset[int] | None:
    words = _words(name, given)
    if words is None:
        return None
    numbers = frozenset(_whole(name, word) for word in words)
    if not all(0 <= number <= _INT32_MAX for number in numbers):
        raise refusal(name, given[name], f"0 to {_INT32_MAX}")
    return numbers


def _bounds(given: Mapping[str, str]) -> QueueBounds | None:
    if not any(name in given for name in _OFFSETS):
        return None
    if "group" in given:
        raise SparkReputError(
            "OPTION", "option 'group' says where queues begin: no starting_offsets, ending_offsets"
        )
    return QueueBounds(
        _offsets("starting_offsets", -2, given), _offsets("ending_offsets", -1, given)
    )


def _offsets(name: str, whole: int, given: Mapping[str, str]) -> dict[str, dict[int, int]]:
    """Return queue offsets by topic and queue; a queue that is wanted whole is not among them."""
    text = given.get(name, "{}")
    expected = f'JSON as {{"orders": {{"0": 23, "1": {whole}}}}}'
    try:
        found = json.loads(text)
        made = {
            topic: {int(queue): offset for queue, offset in queues.items() if offset != whole}
            for topic, queues in found.items()
        }
    except (ValueError, AttributeError):
        raise refusal(name, text, expected) from None
    offsets = [offset for queues in made.values() for offset in queues.values()]
    if not all(type(offset) is int and 0 <= offset <= _INT64_MAX for offset in offsets):
        raise refusal(name, text, expected)
    return made


def _number(
    name: str, given: Mapping[str, str], least: int = 0, most: int = _INT64_MAX
) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    value = _whole(name, text)
    if not least <= value <= most:
        raise refusal(name, text, f"{least} to {most}")
    return value


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise refusal(name, text, "an integer") from None


def _split_size(given: Mapping[str, str]) -> int | None:
    if given.get("split_size", "").lower() == "file":
        return None
    try:
        return _number("split_size", given, _SPLIT_SIZE_MIN) or SPLIT_SIZE
    except SparkReputError as error:
        raise SparkReputError("OPTION", f"{error.reason}, or 'file'") from None


def _flag(name: str, given: Mapping[str, str]) -> bool:
    return _choice(name, given, ("false", "true")) == "true"


def _choice(name: str, given: Mapping[str, str], known: tuple[str, ...]) -> str:
    value = given.get(name, known[0]).lower()
    if value not in known:
        raise refusal(name, value, " or ".join(known))
    return value


def _time(name: str, given: Mapping[str, str]) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    expected = "ms since the epoch, or a time as 2026-01-31T12:00+01:00,"
    try:
        value = int(text)
    except ValueError:
        try:
            time = dt.datetime.fromisoformat(text.strip())
        except ValueError:
            raise refusal(name, text, expected) from None
        if time.tzinfo is None:
            time = time.replace(tzinfo=dt.UTC)
        value = -((_EPOCH - time) // dt.timedelta(milliseconds=1))  # the next ms, where between two
    if abs(value) > _INT64_MAX:
        raise refusal(name, text, expected)
    return value


def _filter(given: Mapping[str, str]) -> Any:
    expression = given.get("filter")
    if expression is None:
        return None
    try:
        import reput_filter
    except ImportError:
        raise SparkReputError(
            "OPTION", "option 'filter' needs the distribution reput-filter, on the executors, too"
        ) from None
    try:
        return reput_filter.compile(expression, given.get("filter_kind", "SQL92"), strict=True)
    except ValueError as error:
        raise SparkReputError("OPTION", f"option 'filter': {error}") from error
