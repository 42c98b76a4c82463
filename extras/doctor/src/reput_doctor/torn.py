"""The last record of a log that a crash tore: opening knows it, and no checksum shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reput.log import Damage
from reput.record import CorruptionKind

if TYPE_CHECKING:
    from reput import Store

__all__ = ["torn_damages"]


def torn_damages(store: Store) -> Iterator[Damage]:
    """Yield the records that opening ``store`` took for torn, in the order of the log."""
    for hole in store.recovery.holes:
        finding = hole.finding
        if finding.reason is not CorruptionKind.TORN:
            continue
        path, position = store.log.path_of(hole.start_offset)
        yield Damage(
            path,
            position,
            hole.start_offset,
            hole.end_offset,
            finding.reason.name,
            finding.detail,
            hole.topic,
            hole.queue_id,
            hole.queue_offset,
        )
