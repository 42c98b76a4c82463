"""The pages of a store, without a socket; and a store in which a message has a long story."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from groupstores import Steps
from starlette.testclient import TestClient

import reput
from reput_schedule import delayed
from reput_testing import ManualClock
from reput_web import WebOptions, application

ADDRESS = "http://127.0.0.1:8787"
HOUR_MS = 3_600_000
NOON = 1_790_000_000_000
UNIQUE = "C0FFEE00" * 4
PIECES = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</title></style></textarea></pre>",
    "{{ 7 * 7 }}{% raw %}",
    "<!--",
    "]]>",
    "&lt;script&gt;",
    "\u202e\u2066reversed",
    "\x00\x07\x1b[2J\x1b]0;title\x07",
    "\ud7ff\ufffe",
    "../../etc/passwd",
    "%0d%0aset-cookie:x=1",
    "\r\nX-Injected: 1",
    "a" * 120,
    "`${alert(1)}`",
    '{"a": "</script><script>alert(1)"}',
    "?#&=/;+%",
]
RISKY = {"script", "iframe", "object", "embed", "base", "img", "style", "link", "meta"}


@contextlib.contextmanager
def pages(root: Path, **options: Any) -> Iterator[TestClient]:
    """The pages of the store at ``root``, as a browser on this machine asks for them."""
    options = {"request_seconds": 20.0, **options}
    app: Any = application(root, WebOptions(**options))
    with TestClient(app, base_url=ADDRESS, follow_redirects=False) as client:
        yield client


class Elements(HTMLParser):
    """Elements, attributes and text of a page, as a browser would take them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def links(self) -> list[str]:
        return [found["href"] for tag, found in self.tags if tag == "a" and "href" in found]

    def attributes(self) -> list[tuple[str, str]]:
        return [pair for _, found in self.tags for pair in found.items()]


def offsets_in(page: str) -> list[int]:
    """Physical offsets of the messages that a page lists."""
    return [int(each) for each in re.findall(r'class="open" href="/message\?at=(\d+)"', page)]


def story_store(root: Path) -> Path:
    """Orders of ten hours; one of them fails twice in the group ``billing`` and is given up."""
    plugins = ("consumequeue", "index", "filter", "schedule", "consumer")
    steps = Steps(root, plugins=plugins)
    with steps.open() as store:
        for number in range(200):
            if number % 20 == 0:
                steps.clock.now += HOUR_MS
            topic = "payments" if number % 4 == 0 else "orders"
            body = b'{"id": %d, "customer": {"region": "eu"}}' % number
            properties = {"amount": str(number), "UNIQ_KEY": f"{number:032X}"}
            store.put(
                reput.Message(
                    topic,
                    body,
                    number % 3,
                    tags="paid" if number % 2 else "created",
                    keys=f"order-{number}",
                    properties=properties,
                )
            )
        lost = reput.Message("orders", b"nobody takes this", 1, properties={"UNIQ_KEY": UNIQUE})
        store.put(lost)
        store.wait_dispatched()
        _fail(steps)
    return root


def kept_store(root: Path) -> Path:
    """Open and ended transactions, a compacted topic, and a timed message."""
    plugins = ("consumequeue", "index", "schedule", "transaction", "compaction")
    clock = ManualClock(NOON)
    options = {"compaction": {"topics": ["prices"]}, "transaction": {"automatic": False}}
    with reput.open(root, plugins=plugins, config=options, clock=clock, threads=False) as store:
        for number in range(60):
            clock.now += 60_000
            body = b"" if number == 58 else b"%d" % number
            store.put(reput.Message("prices", body, number % 2, keys=f"SKU-{number % 6}"))
            if number == 40:
                store.wait_dispatched()
                store.plugin("compaction").compact()
        transactions = store.plugin("transaction")
        for number in range(5):
            message = reput.Message("orders", b"half %d" % number, 0, keys=f"half-{number}")
            half = transactions.prepare(message, group=f"producers-{number % 2}")
            clock.now += HOUR_MS
            if number < 2:
                (transactions.commit if number else transactions.rollback)(half)
        store.put(delayed(reput.Message("orders", b"timed", 0), delay_ms=10 * HOUR_MS))
        store.wait_dispatched()
    return root


def _fail(steps: Steps) -> None:
    level = iter((3, 4, -1))
    with steps.consumer("billing", "orders", explicit=True) as consumer:
        for _ in range(3):
            for message in consumer:
                if message.body.startswith(b"nobody"):
                    message.retry(level=next(level))
                else:
                    message.ack()
            steps.work_for(120_000)
