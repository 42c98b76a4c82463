"""What a plugin is asked when its files differ from rebuilt ones, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.reading.view import LogView

__all__ = ["Compared", "Comparison", "Difference"]


@attrs.frozen
class Difference:
    """One file that is not what a rebuild from the log gives; plain values."""

    path: str
    """Relative to the store's directory."""
    position: int
    """File position of the first byte that differs; 0 if one of the two files is missing."""
    reason: str


@attrs.frozen
class Comparison:
    """The two sets of files that are compared; given to the plugin that they belong to."""

    root: str
    """The store's directory."""
    built: str
    """Directory with the rebuilt files, at the paths that they have below a store's root."""
    log: LogView
    """The log that the files were rebuilt from. Its oldest files may have been removed."""
    disk: Disk
    plugins: frozenset[str]
    """Plugins that the store's manifest names, with their options. Empty for a store that only
    RocketMQ has written, whose options are not known."""


@attrs.frozen
class Compared:
    """A plugin's judgement of differences between bytes."""

    differences: tuple[Difference, ...]
    """Differences in what the log determines."""
    not_compared: tuple[str, ...] = ()
    """Parts of the files that the log does not determine, each with the reason."""
