"""Whether a saved physical offset belongs to this log.

What reput saves about deliveries ends where a record of the log ends. A file that came from another
store, or from before the log was replaced, may name an offset that this log reaches as well. Most
often that offset lies inside of a record here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput.log import LogView


def are_of_log(log: LogView, end: int, *physical_offsets: int) -> bool:
    """Return whether saved offsets may be of this log: none beyond ``end``, or inside of a record.

    Args:
        log: the log of the store.
        end: physical offset at which the log ended at the opening.
        physical_offsets: where records ended when the offsets were saved.
    """
    return all(each <= end and _is_boundary(log, each) for each in physical_offsets)


def _is_boundary(log: LogView, physical_offset: int) -> bool:
    if not log.min_physical_offset < physical_offset < log.max_physical_offset:
        return True  # below the beginning nothing is known
    if log.read_message(physical_offset) is not None:
        return True
    # The end of a file, or a log whose records have a header in front of them.
    batch = next(log.scan(physical_offset), None)
    return batch is None or batch.finding is None
