"""reput: a message store whose indexes are plugins, compatible with Apache RocketMQ's files.

``import reput`` loads no numpy and no plugin framework; each name is imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    import reput_aio
    from reput.dispatch.config import DispatchConfig as DispatchConfig
    from reput.dispatch.runtime.pluginstate import PluginState as PluginState
    from reput.errors import ReputError as ReputError
    from reput.log.config import CommitLogConfig as CommitLogConfig
    from reput.log.losses import Loss as Loss
    from reput.log.writer.receipts import BatchReceipt as BatchReceipt
    from reput.log.writer.receipts import Receipt as Receipt
    from reput.plugin.base import Plugin as Plugin
    from reput.plugin.hookspecs import hookimpl as hookimpl
    from reput.plugin.readresults import MissingMessage as MissingMessage
    from reput.plugin.readresults import QueryResult as QueryResult
    from reput.plugin.readresults import QueueInfo as QueueInfo
    from reput.plugin.readresults import ReadColumns as ReadColumns
    from reput.plugin.readresults import ReadResult as ReadResult
    from reput.plugin.storecontext import StoreContext as StoreContext
    from reput.record.batch import Corruption as Corruption
    from reput.record.batch import DispatchBatch as DispatchBatch
    from reput.record.encoding.batchencoder import Columns as Columns
    from reput.record.messages.message import Message as Message
    from reput.record.messageview import MessageView as MessageView
    from reput.status import Durability as Durability
    from reput.status import PutStatus as PutStatus
    from reput.status import ReadStatus as ReadStatus
    from reput.store.opening.openstore import open_store as open_store
    from reput.store.store import Store as Store

    aio, open = reput_aio, open_store  # noqa: A001 (`reput.open`, like `gzip.open`)
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "__version__": "reput:__version__",
            "aio": "reput_aio:",
            "open": "reput.store.opening.openstore:open_store",
        },
    )
