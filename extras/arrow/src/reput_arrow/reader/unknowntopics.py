"""Warns about topics that none of the stores of a read has: it would return no rows of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from reput.errors import ReputError
from reput_arrow.reader.pruning.derivedfiles import derived_files

if TYPE_CHECKING:
    from reput_arrow.logs.logplace import LogPlace

logger = logging.getLogger(__name__)

_SHOWN: Final = 5
_FOLDERS: Final = ("consumequeue", "consumequeue_rocksdb")
_ROCKSDB: Final = "CURRENT"
"""A file of each database in RocksDB."""


def warn_of_unknown(places: Iterable[LogPlace], topics: Iterable[str]) -> None:
    """Warn about topics without a directory of queues, and name the nearest topic.

    Logs without queues beside them do not tell which topics they hold, so nothing is reported.
    """
    known: set[str] = set()
    for place in places:
        try:
            names = _with_queues(place)
        except (ReputError, OSError):
            return
        if not names:
            return
        known.update(names)
    for topic in sorted(set(topics) - known):
        logger.warning("no queue of the topic %r; %s", topic, _advice(topic, known))


def _with_queues(place: LogPlace) -> list[str]:
    found = derived_files(place)
    if found is None:
        return []
    try:
        for folder in _FOLDERS:
            if any(name == _ROCKSDB for name, *_ in found.files(folder)):
                return []  # only RocksDB knows all topics
        return [*found.names(_FOLDERS[0]), *found.names("batchconsumequeue")]
    finally:
        found.pool.close()


def _advice(topic: str, known: set[str]) -> str:
    import difflib  # only for a warning

    near = difflib.get_close_matches(topic, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    more = ", …" if len(known) > _SHOWN else ""
    return f"there are {', '.join(sorted(known)[:_SHOWN])}{more}"
