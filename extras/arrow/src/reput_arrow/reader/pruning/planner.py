"""Decide what of one log is read for a question, and by which way."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reput.errors import ReputError
from reput_arrow.reader.pruning.derivedfiles import DoubtError, derived_files
from reput_arrow.reader.pruning.keyplan import plan_key
from reput_arrow.reader.pruning.prunedread import Pruned
from reput_arrow.reader.pruning.queueplan import plan_queues

if TYPE_CHECKING:
    from reput_arrow.logs.logplace import LogPlace
    from reput_arrow.logs.openlog import OpenLog
    from reput_arrow.reader.selection import Selection

logger = logging.getLogger(__name__)


def prune(log: OpenLog, place: LogPlace, options: Selection, start: int, end: int) -> Pruned:
    """Return what is to be read of ``[start, end)`` of a log; all of it, where in doubt.

    Args:
        log: the log, whose end is known.
        place: where it is.
        options: of the read.
        start: where a record or a file begins.
        end: likewise.
    """
    whole = Pruned(ranges=((start, end),)) if start < end else Pruned()
    # Rows for what is damaged are wanted wherever it is.
    if not options.prunes or options.is_reporting or start >= end:
        return whole
    if options.topics is None or not options.is_queued:
        return whole
    found = None
    try:
        found = derived_files(place)
        if found is not None:
            planner = plan_queues if options.key is None else plan_key
            pruned = planner(log, found, options, start, end)
            return whole if pruned is None else pruned
    except (DoubtError, ReputError, OSError) as error:
        logger.debug("reading the log as it is store=%s reason=%s", place.store, error)
    finally:
        if found is not None:
            found.pool.close()
    return whole
