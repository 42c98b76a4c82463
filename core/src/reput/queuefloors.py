"""``<store>/reput/queue-offsets.json``: next queue offsets when the log lost its head.

A queue all of whose messages were removed goes on where it was. The plugin that keeps queues knows
where; without one, or where it cannot be opened, they are counted from the log, which does not know
any more. Written before files are removed, from what is on disk by then.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from reput.manifest import OWN_DIRECTORY

if TYPE_CHECKING:
    from reput.disk import Disk

logger = logging.getLogger(__name__)

__all__ = ["load_floors", "raised", "save_floors"]

_NAME: Final = "queue-offsets.json"

Offsets = Mapping[tuple[str, int], int]


def path_of(root: str) -> str:
    """Where a store's file is."""
    return os.path.join(root, OWN_DIRECTORY, _NAME)


def save_floors(root: str, disk: Disk, offsets: Offsets) -> None:
    """Replace the file; on disk when this returns."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, queue_id), offset in offsets.items():
        by_topic.setdefault(topic, {})[str(queue_id)] = offset
    disk.replace(path_of(root), json.dumps(by_topic).encode())


def load_floors(root: str, disk: Disk) -> dict[tuple[str, int], int]:
    """Read it; nothing where there is none, or it is damaged."""
    path = path_of(root)
    if not disk.exists(path):
        return {}
    try:
        return {
            (topic, int(queue_id)): _checked(offset)
            for topic, queues in json.loads(disk.read_file(path)).items()
            for queue_id, offset in queues.items()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        logger.error(
            "damaged file passed over, queues without messages begin anew file=%s error=%s",
            path,
            error,
        )
        return {}


def raised(offsets: Offsets, floors: Offsets) -> dict[tuple[str, int], int]:
    """``offsets``, none of them below its floor."""
    return {**offsets, **{key: max(low, offsets.get(key, 0)) for key, low in floors.items()}}


def _checked(offset: object) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise ValueError(f"{offset!r} is no queue offset")
    return offset
