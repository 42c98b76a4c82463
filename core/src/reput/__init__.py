"""reput: a message store whose indexes are plugins, compatible with Apache RocketMQ's files.

``import reput`` loads no numpy and no plugin framework; each name is imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reput.batch import DispatchBatch as DispatchBatch
    from reput.batch import Finding as Finding
    from reput.columns import Columns as Columns
    from reput.config import CommitLogConfig as CommitLogConfig
    from reput.context import StoreContext as StoreContext
    from reput.errors import ReputError as ReputError
    from reput.hookspecs import hookimpl as hookimpl
    from reput.losses import Loss as Loss
    from reput.message import Message as Message
    from reput.opening import open_store as open  # noqa: A004 (`reput.open`, like `gzip.open`)
    from reput.opening import open_store as open_store
    from reput.plugin import Plugin as Plugin
    from reput.results import BatchReceipt as BatchReceipt
    from reput.results import Hole as Hole
    from reput.results import QueryResult as QueryResult
    from reput.results import QueueInfo as QueueInfo
    from reput.results import ReadResult as ReadResult
    from reput.results import Receipt as Receipt
    from reput.status import Durability as Durability
    from reput.status import PutStatus as PutStatus
    from reput.status import ReadStatus as ReadStatus
    from reput.store import Store as Store
    from reput.view import MessageView as MessageView

__version__ = "0.1.0"

_HOMES = {
    "BatchReceipt": "results",
    "Columns": "columns",
    "CommitLogConfig": "config",
    "DispatchBatch": "batch",
    "Durability": "status",
    "Finding": "batch",
    "Hole": "results",
    "Loss": "losses",
    "Message": "message",
    "MessageView": "view",
    "Plugin": "plugin",
    "PutStatus": "status",
    "QueryResult": "results",
    "QueueInfo": "results",
    "ReadResult": "results",
    "ReadStatus": "status",
    "Receipt": "results",
    "ReputError": "errors",
    "Store": "store",
    "StoreContext": "context",
    "hookimpl": "hookspecs",
    "open_store": "opening",
}

__all__ = [*_HOMES, "__version__", "open"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get("open_store" if name == "open" else name)
    if home is None:
        raise AttributeError(f"module 'reput' has no attribute {name!r}")
    value = getattr(
        importlib.import_module(f"reput.{home}"), "open_store" if name == "open" else name
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
