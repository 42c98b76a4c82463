"""`UnitWrites`: the units of one batch for all queues, written in one call.

A write of its own for each queue takes the interpreter lock as often, beside threads that put
messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput_consumequeue.recordfiles import FileSet


@attrs.define(eq=False, repr=False)
class UnitWrites:
    """Collects units, of each queue at most once, until they are written."""

    files: FileSet
    _pieces: list[tuple[str, Any, int]] = attrs.field(factory=list)
    """Path, bytes as ``(n,)`` uint8, file position."""
    _after: list[Callable[[], object]] = attrs.field(factory=list)

    def add(self, path: str, position: int, data: memoryview, after: Callable[[], object]) -> None:
        """Add the units of one queue.

        Args:
            path: of the file, which exists.
            position: where in the file they belong.
            data: the units.
            after: called when the units are written: only then readers may see them.
        """
        self._pieces.append((path, np.frombuffer(data, np.uint8), position))
        self._after.append(after)

    def write(self) -> None:
        """Write what was added."""
        pieces, after, self._pieces, self._after = self._pieces, self._after, [], []
        self.files.pool.write_pieces(pieces)
        for path, _, _ in pieces:
            self.files.unflushed.written(path)
        for each in after:
            each()
