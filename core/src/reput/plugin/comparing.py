"""What a plugin is asked where its files differ from those built again, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput.files.disk import Disk
    from reput.log.reading.view import LogView

__all__ = ["Compared", "Comparison", "Difference"]


@attrs.frozen
class Difference:
    """One file that is not what the log says; plain values."""

    path: str
    """Below the store's directory."""
    position: int
    """File position of the first byte that differs; 0 where one of the files is missing."""
    reason: str


@attrs.frozen
class Comparison:
    """What is compared with what; given to the plugin whose files they are."""

    root: str
    """The store's directory."""
    built: str
    """Where the files were built, at their paths below a store's root."""
    log: LogView
    """The log that they were built from. It may have lost its head."""
    disk: Disk
    plugins: frozenset[str]
    """Plugins that the store names, with their options. None of a store that RocketMQ alone has
    written: what its options were is not known."""


@attrs.frozen
class Compared:
    """What a plugin says of differences between bytes."""

    differences: tuple[Difference, ...]
    """Those that are differences in what follows from the log."""
    not_compared: tuple[str, ...] = ()
    """What of the files does not follow from the log, each with the reason."""
