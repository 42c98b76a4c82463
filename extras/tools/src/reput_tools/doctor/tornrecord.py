"""The last record of a log that a crash tore: opening knows it, and no checksum shows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from reput.record import CorruptionKind

if TYPE_CHECKING:
    from reput import Store
    from reput.log import Damage


def torn_damages(store: Store) -> Iterator[Damage]:
    """Yield the records that opening ``store`` took for torn, in the order of the log."""
    torn = CorruptionKind.TORN.name
    return (damage for damage in store.recovery.damages if damage.reason == torn)
