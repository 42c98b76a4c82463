"""A store with something of everything that a report tells, whose figures are known."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

import reput
from reput import Message
from reput_tools.brokerfiles import BareKey, encode

HOUR_MS: Final = 3_600_000
NOW: Final = 1_790_000_000_000
STRANGE: Final = '<script>alert("1")</script>&\u202e\x1b[31m'
_PLACEHOLDER: Final = "Z" * len(STRANGE.encode())
ORDERS: Final = 960
HALVES: Final = 12


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def make_store(root: Path, *, scale: int = 1) -> None:
    """Make the store; with ``scale`` more orders."""
    clock = Clock(NOW - 48 * HOUR_MS)
    config = {"commitlog": {"file_size": 65_536 * max(scale, 1)}}
    with reput.open(root, plugins=(), clock=clock, config=config) as store:

        def put(topic: str, count: int, queue_id: int = 0, **more: object) -> None:
            for number in range(count):
                fields = {"body": b"x" * (number % 100), "born_timestamp": clock.now - 5, **more}
                store.put(Message(topic=topic, queue_id=queue_id, **fields))  # type: ignore[arg-type]

        for hour in range(48):
            clock.now = NOW - (48 - hour) * HOUR_MS
            for queue_id in range(4):
                put("orders", ORDERS * scale // 48 // 4, queue_id)
            put("audit", 2 * (hour % 12) + 1)
            if hour % 6 == 0:
                put("SCHEDULE_TOPIC_XXXX", 2, 2)
                put("%RETRY%billing", 3, reconsume_times=2)
                put("%DLQ%billing", 1)
                put(_PLACEHOLDER, 1)
            if hour % 4 == 0:
                number = hour // 4
                text = {
                    "REAL_TOPIC": "orders",
                    "PGROUP": f"shop{number % 2}",
                    "UNIQ_KEY": f"K{number}",
                }
                put("RMQ_SYS_TRANS_HALF_TOPIC", 1, properties=text)
        clock.now = NOW - HOUR_MS // 2
        op = {"TAGS": "d"}
        put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, properties=op, body=b"3,4,5,")
        put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, properties=op, body=b"7")
        put("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, properties=op, body=b"no offset")
    # No put takes such a topic; another program's log may have it, and no checksum covers it.
    for path in (root / "commitlog").iterdir():
        path.write_bytes(path.read_bytes().replace(_PLACEHOLDER.encode(), STRANGE.encode()))
    write_offsets(root)


def write_offsets(root: Path) -> None:
    """Write how far consumers and deliveries have come, as RocketMQ does."""
    bare = BareKey
    table = {
        "orders@shop": {bare("0"): 60, bare("1"): 50, bare("2"): 99},
        "audit@shop": {bare("0"): 0},
        "audit@<b>bold</b>": {bare("0"): 5, bare("9"): 1},
        "audit@ahead": {bare("0"): 1_000_000},
        "%RETRY%billing@billing": {bare("0"): 20},
        "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS": {bare("0"): 3},
    }
    config = root / "config"
    config.mkdir(exist_ok=True)
    (config / "consumerOffset.json").write_bytes(encode({"offsetTable": table}))
    delays = {"offsetTable": {bare("3"): 10}}
    (config / "delayOffset.json").write_bytes(encode(delays))


def write_wheel(root: Path, due: list[tuple[int, int]], *, read: int, queue_offset: int) -> None:
    """Write a timer wheel: times in ms with how many messages wait for each."""
    slots = np.zeros(
        1_209_600,
        np.dtype([("tick", ">i8"), ("a", ">i8"), ("b", ">i8"), ("n", ">i4"), ("m", ">i4")]),
    )
    for time, count in due:
        slots[time // 1000 % len(slots)] = (time // 1000, 0, 0, count, 0)
    (root / "timerwheel").write_bytes(slots.tobytes())
    head = np.array([read, 0, queue_offset], ">i8").tobytes()
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "timercheck").write_bytes(head.ljust(4096, b"\0"))
