"""One life of a process whose group consumes a store, until somebody kills it.

    python groupwriter.py STORE MODE FIRST EPOCH [BODY …]

Not a test module. It puts 150 messages ``FIRST``, ``FIRST`` + 1, … beside three threads that
consume; what was acknowledged goes to stdout, a line each and at once: ``put BODY``, ``failed TOPIC
QUEUE OFFSET BODY``, ``done TOPIC QUEUE OFFSET BODY``, and ``saved`` after a durable commit. In MODE
``ordered`` a message that fails holds up its queue, in ``concurrent`` it comes by the retry topic;
``last`` in front of either ends by itself when each BODY is done. The clock runs a hundred
times as fast as the machine's, from EPOCH on, s.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import reput
from reput_consumer import Retry

CONFIG = {"commitlog": {"file_size": 1 << 20}}
PLUGINS = ("consumequeue", "schedule", "consumer")
PUT_COUNT = 150
FASTER = 100
_NEW_YEAR_MS = 1_700_000_000_000


def say(*words: object) -> None:
    """Print a line that a kill cannot take back, nor tear."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def put(store: reput.Store, first: int) -> None:
    """Put messages one by one."""
    for number in range(first, first + PUT_COUNT):
        store.put(reput.Message("orders", b"%d" % number, number % 3))
        say("put", number)


def main(path: str, mode: str, first: int, epoch: float, wanted: set[int]) -> None:
    """Live."""
    is_ordered, is_last = "ordered" in mode, "last" in mode

    def clock() -> int:
        return _NEW_YEAR_MS + int((time.time() - epoch) * 1_000 * FASTER)

    with reput.open(path, plugins=PLUGINS, config=CONFIG, clock=clock) as store:
        options = {"start": "earliest", "ordered": is_ordered, "suspend_ms": 100}
        consumer = store.consumer("g", "orders", idle=1 if is_last else None, **options)
        lock = threading.Lock()
        handled = 0

        def handle(message: Any) -> object:
            nonlocal handled
            number = int(message.body)
            place = (message.view.topic, message.queue.queue_id, message.queue_offset, number)
            with lock:
                handled += 1
                saves = handled % 20 == 0
            if number % 5 == 0 and message.reconsume_times == 0:
                say("failed", *place)
                return Retry(level=1)
            say("done", *place)
            wanted.discard(number)
            if saves:
                consumer.commit(durable=True)
                say("saved")
            return None

        with consumer:
            producer = threading.Thread(target=put, args=(store, first), daemon=True)
            if not is_last:
                producer.start()
            consumer.run(handle, threads=3)
            while wanted:  # a lost one keeps it here, until the test's own limit ends it
                consumer.run(handle, threads=3)


if __name__ == "__main__":
    main(
        sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), set(map(int, sys.argv[5:]))
    )
