"""Sends of our own client: threads that share one producer, as in `java/`."""

from __future__ import annotations

import threading
import time
from typing import Any


def send(
    name_server: str, topic: str, threads: int, size: int, warm_up_ms: int, ms: int
) -> dict[str, Any]:
    """Send for so long; return what `JavaLoad.do` returns for ``send``."""
    from reput import Message
    from reput_client import Client

    clock = time.perf_counter_ns
    measured_from = clock() + warm_up_ms * 1_000_000
    end = measured_from + ms * 1_000_000
    times: list[int] = []
    sent = [0]
    errors: list[Exception] = []

    def run() -> None:
        own, count = [], 0
        message = Message(topic, b"x" * size, tags="tag")
        began = clock()
        try:
            while began < end:
                producer.send(message)
                now = clock()
                count += 1
                if began >= measured_from and now <= end:
                    own.append(now - began)
                began = now
        except Exception as error:  # told to the caller
            errors.append(error)
        with lock:
            sent[0] += count
            times.extend(own)

    lock = threading.Lock()
    with Client(name_server) as client, client.producer("load") as producer:
        running = [threading.Thread(target=run) for _ in range(threads)]
        for each in running:
            each.start()
        for each in running:
            each.join()
    if errors:
        raise errors[0]
    ordered = sorted(times) or [0]
    last = len(ordered) - 1
    parts = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    return {
        "all": sent[0],
        "count": len(times),
        "failed": 0,
        "seconds": ms / 1e3,
        **{name: ordered[round(last * part)] / 1e3 for name, part in parts.items()},
    }
