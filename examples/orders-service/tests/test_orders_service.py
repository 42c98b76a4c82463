"""The order service in this process, and as a process that is stopped or killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")
SOURCES = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCES))

import orders_service  # noqa: E402
import reput  # noqa: E402

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextlib.asynccontextmanager
async def service(path):
    app = orders_service.create_app(path)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://orders") as client,
    ):
        yield client


async def all_bills(client, count):
    found, offset = [], 0
    while len(found) < count:
        page = (await client.get("/bills", params={"offset": offset, "wait": 20})).json()
        found += page["bills"]
        offset = page["next_offset"]
    return found


async def test_orders_are_billed_also_those_that_wait_for_a_bill(tmp_path):
    async with service(tmp_path / "store") as client:
        waiting = asyncio.create_task(all_bills(client, 50))
        placed = await asyncio.gather(
            *(client.post("/orders", json={"item": f"tea {at}", "count": 2}) for at in range(50))
        )
        bills = await waiting

    assert {each.status_code for each in placed} == {201}
    assert {each["order_id"] for each in bills} == {each.json()["order_id"] for each in placed}
    assert {each["text"] for each in bills} == {f"2 x tea {at}" for at in range(50)}


async def test_what_is_no_order_is_refused(tmp_path):
    async with service(tmp_path / "store") as client:
        answers = [
            await client.post("/orders", json=each) for each in ({}, {"item": 1, "count": 0})
        ]
        health = await client.get("/health")

    assert [each.status_code for each in answers] == [422, 422]
    assert health.json() == {"status": "ok"}


async def test_a_store_that_takes_no_orders_is_reported(tmp_path):
    async with service(tmp_path / "store") as client:
        state = client._transport.app.state
        await client.post("/orders", json={"item": "tea"})
        await all_bills(client, 1)
        await state.orders._store.close()
        await state.billing
        answer = await client.post("/orders", json={"item": "tea"})
        health = await client.get("/health")

    assert (answer.status_code, health.status_code) == (503, 503)


@contextlib.contextmanager
def process(path):
    """The service as a process, and its address."""
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--port",
        "0",
        "--no-access-log",
        "--app-dir",
        str(SOURCES),
    ]
    environment = {**os.environ, "ORDERS_STORE": str(path)}
    with subprocess.Popen(
        [*command, "orders_service:app"], stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            assert running.stderr is not None
            for line in running.stderr:
                if found := re.search(r"running on (http://\S+)", line):
                    yield running, found[1]
                    break
        finally:
            running.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_no_order_that_was_answered_is_lost_where_the_service_ends(tmp_path, number):
    pytest.importorskip("uvicorn")
    path, answered = tmp_path / "store", []

    async def customer(client, running):
        with contextlib.suppress(httpx.TransportError):  # the service ends
            while True:
                answer = await client.post("/orders", json={"item": "tea"})
                if answer.status_code == 201:
                    answered.append(answer.json()["order_id"])
                if len(answered) == 100:
                    running.send_signal(number)

    with process(path) as (running, address):
        async with httpx.AsyncClient(base_url=address) as client:
            await asyncio.gather(*(customer(client, running) for _ in range(8)))
        await asyncio.to_thread(running.communicate)
    with reput.open(path) as store:
        orders, bills = bodies_of(store, "orders"), bodies_of(store, "bills")

    assert len(answered) >= 100
    assert set(answered) <= orders
    assert bills <= orders
    async with service(path) as client:  # and the next run bills what is left
        assert {each["order_id"] for each in await all_bills(client, len(orders))} == orders


def bodies_of(store, topic):
    """Ids of the orders that a topic has messages of."""
    found, offset = set(), 0
    while messages := store.read(topic, 0, offset).messages:
        found |= {key for message in messages for key in message.keys}
        offset += len(messages)
    return found
