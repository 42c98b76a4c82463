"""Verify what was derived from a log: build it again, aside, and compare every byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.log import SPLIT_SIZE
from reput_rebuild.driver import Rebuilt, run_rebuild

if TYPE_CHECKING:
    from reput_rebuild.engine import Engine

__all__ = ["VerifiedDerived", "verify_derived"]

_SCHEMA: Final = (
    "store string NOT NULL, plugin string NOT NULL, file string NOT NULL, "
    "position long NOT NULL, reason string NOT NULL"
)


@attrs.frozen
class VerifiedDerived:
    """What came of the comparison for one store."""

    store: str
    plugins: tuple[Rebuilt, ...]
    """Each with its differences."""

    @property
    def is_sound(self) -> bool:
        """Whether every file is the one that follows from the log."""
        return not any(each.differences for each in self.plugins)

    def frame(self, spark: Any) -> Any:
        """Return a DataFrame with a row for each file that differs, and its first such byte."""
        rows = [
            (self.store, each.plugin, found.path, found.position, found.reason)
            for each in self.plugins
            for found in each.differences or ()
        ]
        return spark.createDataFrame(rows, _SCHEMA)


def verify_derived(
    path: str | os.PathLike[str],
    engine: Engine,
    plugins: Sequence[str] = (),
    *,
    split_size: int = SPLIT_SIZE,
    progress: Callable[[int, int], None] | None = None,
) -> VerifiedDerived:
    """Compare queues, index, and whatever else plugins derive, with the log; change nothing.

    Args:
        path: a store that is not open for writing, mounted where the tasks run.
        engine: `reput_spark.jobs.engine.SparkEngine`, or `reput_rebuild.engine.LocalEngine`.
        plugins: names; all that derive files and keep nothing else when left out.
        split_size: bytes of the log in a task, about.
        progress: called with bytes done and bytes in all.

    Raises:
        StoreNotFoundError: no store there.
        StoreLockedError: it is open for writing.
        PluginError: the store does not use a plugin, or nothing can be rebuilt of it.
        SparkReputError: a task failed.
    """
    built = run_rebuild(path, plugins, engine, split_size=split_size, progress=progress, check=True)
    return VerifiedDerived(os.fspath(path), tuple(built))
