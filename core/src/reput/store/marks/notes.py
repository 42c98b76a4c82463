"""Lists the small files that reput keeps in a store, with a check of each, for readers.

A writer writes most of them again; a reader ignores a damaged one, and reports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from reput.log.recovery.checkednote import is_checked_note_sound, path_of_checked
from reput.log.recovery.checkpoint import Checkpoint
from reput.log.recovery.loghead import LogHead

if TYPE_CHECKING:
    from reput.dispatch.records.states import PluginRecords
    from reput.files.system.disk import Disk
    from reput.log.losses import LossLedger
    from reput.log.progress import ProgressFile

    Note = tuple[str, Callable[[], bool]]

__all__ = ["notes_of"]


def notes_of(
    root: str,
    disk: Disk,
    ledger: LossLedger,
    records: PluginRecords,
    plugins: Iterable[str],
    places: Iterable[ProgressFile],
) -> list[Note]:
    """Return the path of each note, with a function that tells whether the existing file is sound.

    Args:
        root: the store's directory.
        disk: the store's disk.
        ledger: the loss ledger, loaded.
        records: the records of plugins.
        plugins: plugins that have a record.
        places: progress files.
    """
    checkpoint = os.path.join(root, "checkpoint")
    head = LogHead.of(root, disk)
    return [
        (checkpoint, lambda: len(disk.read_file(checkpoint)) >= Checkpoint.SIZE_MIN),
        (ledger.path, lambda: not ledger.damaged_count),
        (head.path, lambda: head.is_whole),
        (path_of_checked(root), lambda: is_checked_note_sound(root, disk)),
        *((place.path, _says_where(place)) for place in places),
        *((records.path(name), _is_record(records, name)) for name in plugins),
    ]


def _says_where(place: ProgressFile) -> Callable[[], bool]:
    return lambda: place.load() is not None


def _is_record(records: PluginRecords, plugin: str) -> Callable[[], bool]:
    return lambda: records.is_sound(plugin)
