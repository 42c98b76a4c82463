"""A store in asyncio programs. ``reput.aio`` is this package.

async with reput.aio.open("orders-store", config={"commitlog": {"flush": "sync"}}) as store:
    receipt = await store.put(reput.Message("orders", b"1"))  # on disk
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_aio.asyncstore import AsyncStore as AsyncStore
    from reput_aio.awaitablecalls import AwaitableCalls as AwaitableCalls
    from reput_aio.batch import Batch as Batch
    from reput_aio.consumer import AsyncConsumer as AsyncConsumer
    from reput_aio.consumer import AsyncMessage as AsyncMessage
    from reput_aio.flushwaiters import FlushWaiters as FlushWaiters
    from reput_aio.flushwaiters import durability as durability
    from reput_aio.opening import Opening as Opening
    from reput_aio.opening import open_store
    from reput_aio.opening import wrap as wrap
    from reput_aio.popconsumer import AsyncPopConsumer as AsyncPopConsumer
    from reput_aio.readplacement import ReadPlacement as ReadPlacement
    from reput_aio.storecalls import AsyncStoreConfig as AsyncStoreConfig
    from reput_aio.transaction import AsyncTransaction as AsyncTransaction

    open = open_store  # noqa: A001 (`aio.open`, as `reput.open`)
else:
    __getattr__, __dir__ = lazy_exports(__name__, {"open": "reput_aio.opening:open_store"})
