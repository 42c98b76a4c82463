"""`open_store`: opens a store for an asyncio program, without blocking the event loop."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Generator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal

import reput
from reput_aio.asyncstore import AsyncStore
from reput_aio.storecalls import AsyncStoreConfig
from reput_aio.threads import on_own_thread

if TYPE_CHECKING:
    from reput import Store


def open_store(
    path: str | os.PathLike[str],
    mode: Literal["w", "r"] = "w",
    *,
    puts_max: int = 10_000,
    threads: int = 8,
    **options: Any,
) -> Opening:
    """Open a store: ``async with reput.aio.open(path) as store``, or ``await`` the call.

    Args:
        path: the store's directory.
        mode: ``"w"`` to put and read; ``"r"`` to read only.
        puts_max: puts of one event loop that may be under way; see `AsyncStoreConfig`.
        threads: threads for calls that may wait for the disk; see `AsyncStoreConfig`.
        options: others of `reput.open`, such as ``plugins`` and ``config``.

    Raises:
        ValueError: ``puts_max`` or ``threads`` is below 1.
        ReputError: as for `reput.open`, when it is awaited.
    """
    config = AsyncStoreConfig(puts_max=puts_max, threads=threads)
    return Opening(functools.partial(reput.open, path, mode, **options), config)


def wrap(store: Store, *, puts_max: int = 10_000, threads: int = 8) -> AsyncStore:
    """Return an `AsyncStore` of a store that is open; its `AsyncStore.close` leaves that open.

    Args:
        store: an open store.
        puts_max: see `AsyncStoreConfig`.
        threads: see `AsyncStoreConfig`.
    """
    config = AsyncStoreConfig(puts_max=puts_max, threads=threads)
    return AsyncStore(store, config, is_owner=False)


class Opening:
    """What `reput.aio.open` returns: awaitable, and an asynchronous context manager."""

    def __init__(self, opener: functools.partial[Store], config: AsyncStoreConfig) -> None:
        self._opener = opener
        self._config = config
        self._store: AsyncStore | None = None

    if not TYPE_CHECKING:  # a type checker knows that it has no such method

        def __getattr__(self, name: str) -> object:
            text = "await reput.aio.open(…), or write `async with reput.aio.open(…) as store`"
            raise AttributeError(f"the store is not open yet, so it has no {name!r}: {text}")

    def __await__(self) -> Generator[Any, None, AsyncStore]:
        return self._open().__await__()

    async def _open(self) -> AsyncStore:
        opening = on_own_thread(self._opener)
        try:
            store = await asyncio.shield(asyncio.wrap_future(opening))
        except asyncio.CancelledError:
            opening.add_done_callback(_close_again)
            raise
        return AsyncStore(store, self._config, is_owner=True)

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._open()
        return self._store

    async def __aexit__(self, *_: object) -> None:
        assert self._store is not None
        await self._store.close()


def _close_again(opening: Future[Store]) -> None:
    """Close a store that nobody waits for any more."""
    if opening.exception() is None:
        on_own_thread(opening.result().close)
