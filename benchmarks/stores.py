"""The stores of the cases: each names its plugins and does not depend on what is installed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import reput

__all__ = ["QUEUES", "open_large", "open_store"]

QUEUES = ("consumequeue",)
"""The plugins needed to read by topic and queue, and no more."""
_OTHERS = ("counter", "index")
"""Plugins that cases add to the large log, which they share."""


def open_store(path: Path | str, **options: Any) -> reput.Store:
    """Open a store of one case, with queues alone unless other plugins are given.

    A new one has log files of the size that RocketMQ's have, unless ``config`` names another.
    """
    import reput

    plugins = options.pop("plugins", None)
    config = dict(options.pop("config", None) or {})
    if not os.path.exists(os.path.join(path, "commitlog")):
        config["commitlog"] = {**reput.ROCKETMQ_LOG, **config.get("commitlog", {})}
    return reput.open(
        path, plugins=QUEUES if plugins is None else plugins, config=config, **options
    )


def open_large(
    path: Path, plugins: Sequence[Any] = QUEUES, mode: Literal["w", "r"] = "w"
) -> reput.Store:
    """Open the large log with these plugins, whatever plugins an earlier case used."""
    import reput

    names = [getattr(each, "name", each) for each in plugins]
    forgotten = [name for name in _OTHERS if name not in names] if mode == "w" else []
    return reput.open(path, mode=mode, plugins=plugins, forget=forgotten)
