"""A request to a web application that stores an order, beside SQLite and a plain list."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.case import Case
from benchmarks.stores import open_store
from benchmarks.tables import WEB
from benchmarks.trial import Latencies, Trial

_COUNT = {1: 1_000, 64: 6_400}
"""Requests, by how many are under way at once."""

_Keep = Callable[[str, str], Awaitable[None]]
"""Stores the id of an order and what it says; on disk when it returns."""
_App = Callable[..., Awaitable[None]]


def cases() -> Iterator[Case]:
    """One request at a time, and 64 at once."""
    for clients, count in _COUNT.items():
        yield Case(
            name=f"web.{clients}",
            table=WEB,
            run=partial(requests, clients=clients, full=count),
            needs=("reput", "reput_aio", "aiosqlite", "fastapi"),
        )


def requests(trial: Trial, *, clients: int, full: int) -> None:
    """The same application three times; requests come without a network."""
    each = max(trial.count(full) // clients, 2)
    for label, opened in (("reput", _reput), ("aiosqlite", _sqlite), ("a list", _list)):
        path = trial.directory / label.replace(" ", "-")
        asyncio.run(_measure(trial, label, opened(path), clients, each))


async def _measure(
    trial: Trial,
    label: str,
    opened: contextlib.AbstractAsyncContextManager[tuple[_Keep, Callable[[], int]]],
    clients: int,
    each: int,
) -> None:
    async with opened as (keep, stored_count):
        app = application(keep)
        times: list[int] = []

        async def client(count: int) -> None:
            for number in range(count):
                began = time.perf_counter_ns()
                status = await ask(app, {"item": "tea", "count": number + 1})
                times.append(time.perf_counter_ns() - began)
                trial.require(status == 201, f"{label} answered {status}")

        await asyncio.gather(*(client(2) for _ in range(clients)))
        times.clear()
        trial.settle()
        name, count = f"{label}, {clients} at once", clients * each
        with trial.timed(name, count, unit="requests", baseline=label == "reput") as measured:
            await asyncio.gather(*(client(each) for _ in range(clients)))
        measured.latencies = Latencies.of("request", times)
        found = stored_count()
        trial.require(found == count + 2 * clients, f"{label} has {found} of {count} orders")


def application(keep: _Keep) -> _App:
    """Return the application: an order is checked, gets an id and is stored."""
    import uuid

    from fastapi import FastAPI
    from pydantic import create_model

    order_type: Any = create_model("Order", item=(str, ...), count=(int, 1))
    app = FastAPI()

    async def place(order: Any) -> dict[str, str]:
        order_id = uuid.uuid4().hex
        await keep(order_id, order.model_dump_json())
        return {"order_id": order_id}

    place.__annotations__ = {"order": order_type, "return": dict[str, str]}
    app.post("/orders", status_code=201)(place)
    return app


async def ask(app: _App, order: dict[str, Any]) -> int:
    """Send an order as a server does, and return the status of the answer."""
    body = json.dumps(order).encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/orders",
        "raw_path": b"/orders",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await app(scope, receive, send)
    return statuses[0]


@contextlib.asynccontextmanager
async def _reput(path: Path) -> AsyncIterator[tuple[_Keep, Callable[[], int]]]:
    import reput

    with open_store(path, config={"commitlog": {"flush": "sync"}}) as store:
        wrapped = reput.aio.wrap(store)

        async def keep(order_id: str, text: str) -> None:
            await wrapped.put(reput.Message("orders", text.encode(), keys=[order_id]))

        yield keep, lambda: sum(map(len, store.scan()))
        await wrapped.close()


@contextlib.asynccontextmanager
async def _sqlite(path: Path) -> AsyncIterator[tuple[_Keep, Callable[[], int]]]:
    import sqlite3

    import aiosqlite

    async with aiosqlite.connect(path) as database:
        await database.execute("PRAGMA journal_mode = WAL")
        await database.execute("PRAGMA synchronous = FULL")
        await database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, text TEXT)")

        async def keep(order_id: str, text: str) -> None:
            await database.execute("INSERT INTO orders VALUES (?, ?)", (order_id, text))
            await database.commit()

        def stored_count() -> int:
            with contextlib.closing(sqlite3.connect(path)) as other:
                return int(other.execute("SELECT count(*) FROM orders").fetchone()[0])

        yield keep, stored_count


@contextlib.asynccontextmanager
async def _list(path: Path) -> AsyncIterator[tuple[_Keep, Callable[[], int]]]:
    orders: list[tuple[str, str]] = []

    async def keep(order_id: str, text: str) -> None:
        orders.append((order_id, text))

    yield keep, lambda: len(orders)
