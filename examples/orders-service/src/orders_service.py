"""An order service: HTTP in, durable puts, and a consumer as a background task.

An order is on disk when its request is answered. The background task bills each order, also those
of a run that was killed. Stopping (Ctrl-C, SIGTERM) finishes requests and bills in progress. The
README shows how to run it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

import reput
from reput.errors import PutError

PLUGINS = ("consumequeue", "consumer", "index")
CONFIG = {"commitlog": {"flush": "sync"}}  # a put returns when its message is on disk


class Order(BaseModel):
    """What a customer sends."""

    item: str
    count: int = Field(default=1, ge=1)


class Placed(BaseModel):
    """The answer to an order."""

    order_id: str


class Bill(BaseModel):
    """What the background task makes of an order."""

    order_id: str
    text: str


class Bills(BaseModel):
    """Bills from one offset on."""

    bills: list[Bill]
    next_offset: int


class Orders:
    """Orders and bills: two topics of one store."""

    def __init__(self, store: reput.aio.AsyncStore) -> None:
        self._store = store

    async def place(self, order: Order) -> str:
        """Store an order; return its id."""
        order_id = uuid.uuid4().hex
        body = order.model_dump_json().encode()
        await self._store.put(reput.Message("orders", body, keys=[order_id], queue_id=0))
        return order_id

    async def bill(self, message: reput.aio.AsyncMessage) -> None:
        """Bill one order: called for each, and again after a kill, if it was in progress then."""
        (order_id,) = message.keys
        if await self._store.query("bills", order_id, limit=1):
            return
        order = Order.model_validate_json(message.body)
        bill = Bill(order_id=order_id, text=f"{order.count} x {order.item}")
        body = bill.model_dump_json().encode()
        await self._store.put(reput.Message("bills", body, keys=[order_id], queue_id=0))

    async def bills(self, offset: int, wait: float) -> Bills:
        """Return bills from a queue offset on; without any, wait for one."""
        found = await self._store.read("bills", 0, offset, wait=wait)
        bills = [Bill.model_validate_json(message.body) for message in found.messages]
        return Bills(bills=bills, next_offset=offset + len(bills))


def create_app(path: str | os.PathLike[str]) -> FastAPI:
    """Return an application whose store is at ``path``."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with reput.aio.open(path, plugins=PLUGINS, config=CONFIG) as store:
            app.state.orders = orders = Orders(store)
            consumer = store.consume("billing", ["orders"], start="earliest", concurrency=20)
            app.state.billing = billing = asyncio.create_task(consumer.run(orders.bill))
            try:
                yield
            finally:
                consumer.stop()
                await billing  # bills in progress are finished

    app = FastAPI(title="orders", lifespan=lifespan)

    @app.exception_handler(PutError)
    async def unavailable(request: Request, error: PutError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=503)

    @app.post("/orders", status_code=201)
    async def place(order: Order) -> Placed:
        return Placed(order_id=await app.state.orders.place(order))

    @app.get("/bills")
    async def bills(
        offset: Annotated[int, Query(ge=0)] = 0,
        wait: Annotated[float, Query(ge=0, le=20)] = 0,
    ) -> Bills:
        found: Bills = await app.state.orders.bills(offset, wait)
        return found

    @app.get("/health")
    async def health() -> dict[str, str]:
        if app.state.billing.done():
            raise HTTPException(503, "orders are not billed any more")
        return {"status": "ok"}

    return app


def __getattr__(name: str) -> FastAPI:
    """Return ``app``, made when a server asks for it: importing this module opens nothing."""
    if name == "app":
        return create_app(os.environ.get("ORDERS_STORE", "orders-store"))
    raise AttributeError(name)
