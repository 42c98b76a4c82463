"""Opens the log at a place, with its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput_arrow.logs.openlog import OpenLog

if TYPE_CHECKING:
    from reput_arrow.logs.logplace import LogPlace


def open_log(place: LogPlace, end_offset: int | None = None, *, quickly: bool = False) -> OpenLog:
    """Open the log at ``place`` to be read; close it, or use it in a ``with`` statement.

    Args:
        place: where it is.
        end_offset: where it ends, when that is known; else it is looked for in the last file.
        quickly: look near the end only; see `OpenLog.find_end`.

    Raises:
        CorruptFileError: files are missing, or not all of one size.
    """
    log = OpenLog(place)
    try:
        if end_offset is None:
            log.find_end(quickly=quickly)
        else:
            log.set_end(end_offset)
    except BaseException:
        log.close()
        raise
    return log
