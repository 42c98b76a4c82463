"""reput: a message store whose indexes are plugins, compatible with Apache RocketMQ's files.

``import reput`` loads no numpy and no plugin framework; each name is imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput.dispatch.config import DispatchConfig as DispatchConfig
    from reput.dispatch.running.phase import PluginState as PluginState
    from reput.errors import ReputError as ReputError
    from reput.log.config import CommitLogConfig as CommitLogConfig
    from reput.log.damage import Loss as Loss
    from reput.log.writing.receipts import BatchReceipt as BatchReceipt
    from reput.log.writing.receipts import Receipt as Receipt
    from reput.plugin.answers import MissingMessage as MissingMessage
    from reput.plugin.answers import QueryResult as QueryResult
    from reput.plugin.answers import QueueInfo as QueueInfo
    from reput.plugin.answers import ReadColumns as ReadColumns
    from reput.plugin.answers import ReadResult as ReadResult
    from reput.plugin.base import Plugin as Plugin
    from reput.plugin.context import StoreContext as StoreContext
    from reput.plugin.hookspecs import hookimpl as hookimpl
    from reput.record.batch import Corruption as Corruption
    from reput.record.batch import DispatchBatch as DispatchBatch
    from reput.record.encoding.many import Columns as Columns
    from reput.record.messages.message import Message as Message
    from reput.record.view import MessageView as MessageView
    from reput.status import Durability as Durability
    from reput.status import PutStatus as PutStatus
    from reput.status import ReadStatus as ReadStatus
    from reput.store.opening.open import open_store as open  # noqa: A004 (`reput.open`, like `gzip.open`)
    from reput.store.opening.open import open_store as open_store
    from reput.store.store import Store as Store

__version__ = "0.1.0"

_HOMES = {
    "BatchReceipt": "log.writing.receipts",
    "Columns": "record.encoding.many",
    "CommitLogConfig": "log.config",
    "Corruption": "record.batch",
    "DispatchBatch": "record.batch",
    "DispatchConfig": "dispatch.config",
    "Durability": "status",
    "Loss": "log.damage",
    "Message": "record.messages.message",
    "MessageView": "record.view",
    "MissingMessage": "plugin.answers",
    "Plugin": "plugin.base",
    "PluginState": "dispatch.running.phase",
    "PutStatus": "status",
    "QueryResult": "plugin.answers",
    "QueueInfo": "plugin.answers",
    "ReadColumns": "plugin.answers",
    "ReadResult": "plugin.answers",
    "ReadStatus": "status",
    "Receipt": "log.writing.receipts",
    "ReputError": "errors",
    "Store": "store.store",
    "StoreContext": "plugin.context",
    "hookimpl": "plugin.hookspecs",
    "open_store": "store.opening.open",
}

__all__ = [*_HOMES, "__version__", "open"]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES | {"open": "store.opening.open:open_store"})
