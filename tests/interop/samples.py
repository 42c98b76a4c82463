"""Messages as producers make them, ways to put them, and what a store says of them in one form."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import attrs
from java_store import COMMITLOG_SIZE, UNITS_PER_FILE, Row

import reput

TOPICS = ("orders", "payments", "audit-log_1")
LONG_TOPIC = "%RETRY%" + "g" * 123
LIGHT_QUEUES = ("%LMQ%light-1", "%LMQ%light-2", "%LMQ%light-3")
TAGS = (None, "", "TagA", "TagB", "标签é😀", "😀", "polygenelubricants", "long-" * 12)
MAGIC = bytes.fromhex("00000064daa320a7010200000008cbd43194")
STORE_HOST = ("192.168.0.7", 10_911)
STORE_HOST_V6 = ("2001:db8::42", 10_911)
BORN = 1_700_000_000_000
BORN_HOST_V6_BIT, STORE_HOST_V6_BIT = 0x10, 0x20
PREPARED, COMMIT, ROLLBACK = 0x4, 0x8, 0xC
CRC_PROPERTY = "__CRC32#"


@attrs.frozen
class Case:
    """One way of writing a store."""

    put: Callable[[reput.Store, Sequence[reput.Message]], Iterable[reput.Receipt]]
    """Puts messages of one topic, queue and producer."""
    group_size: int = 1
    """Most messages of one put."""
    born_here: bool = False
    """No producer is named, and half of them tell no time: the store's own are taken."""
    v6: bool = False
    """Half of the producers, and the store, have IPv6 addresses."""
    long_topics: bool = False
    """Half of the topics need records of version 2."""
    light_queues: bool = False
    """Most messages are listed in up to three light queues too."""
    transactions: bool = False
    """Prepared messages, commits and rollbacks among the plain ones."""
    record_crc: bool = False

    @property
    def config(self) -> dict[str, dict[str, object]]:
        """Configuration of the store; small files, so that many are rolled."""
        address, port = STORE_HOST_V6 if self.v6 else STORE_HOST
        return {
            "commitlog": {
                "file_size": COMMITLOG_SIZE,
                "store_address": f"[{address}]:{port}" if self.v6 else f"{address}:{port}",
                "record_crc": self.record_crc,
                "max_light_queues": 20_000 if self.light_queues else 0,
            },
            "consumequeue": {"units_per_file": UNITS_PER_FILE},
        }

    def open(self, path: Path, clock: Callable[[], int] | None = None) -> reput.Store:
        """Open the store at ``path`` for writing."""
        return reput.open(path, mode="w", plugins={"consumequeue"}, config=self.config, clock=clock)

    def messages(self, count: int, seed: int = 1) -> Iterator[list[reput.Message]]:
        """``count`` messages in groups that one put may take; the same ones each time."""
        chance = random.Random(seed)
        made = 0
        while made < count:
            size = min(chance.randint(1, self.group_size), count - made)
            envelope = self._envelope(chance, made)
            yield [attrs.evolve(envelope, **self._content(chance, made + i)) for i in range(size)]
            made += size

    def write(
        self, store: reput.Store, count: int, seed: int = 1
    ) -> Iterator[tuple[reput.Message, reput.Receipt]]:
        """Put ``count`` messages; each with its receipt."""
        for group in self.messages(count, seed):
            yield from zip(group, self.put(store, group), strict=True)

    def _envelope(self, chance: random.Random, number: int) -> reput.Message:
        born_v6 = self.v6 and chance.random() < 0.5
        crowded = chance.random() < 0.4  # one queue gets enough to fill several files
        topic = TOPICS[0] if crowded else chance.choice(TOPICS)
        address = "fe80::1234:5678:9abc:def0" if born_v6 else f"10.1.2.{chance.randrange(256)}"
        timeless = self.born_here and chance.random() < 0.5
        return reput.Message(
            topic=LONG_TOPIC if self.long_topics and chance.random() < 0.5 else topic,
            queue_id=0 if crowded else chance.randrange(4),
            born_timestamp=None if timeless else BORN + 7 * number,
            born_host=None if self.born_here else (address, 40_000 + chance.randrange(1_000)),
            reconsume_times=chance.randrange(3),
            sys_flag=chance.choice((0, PREPARED, COMMIT, ROLLBACK)) if self.transactions else 0,
            prepared_transaction_offset=chance.randrange(1 << 40) if self.transactions else 0,
        )

    def _content(self, chance: random.Random, number: int) -> dict[str, object]:
        size = chance.randrange(chance.choice((1, 300, 300, 3_001)))
        body = chance.randbytes(size)
        if size >= len(MAGIC) and chance.random() < 0.25:
            at = chance.randrange(size - len(MAGIC) + 1)
            body = body[:at] + MAGIC + body[at + len(MAGIC) :]
        properties = {"UNIQ_KEY": f"7F00000100002A9F{number:016X}"}
        if chance.random() < 0.3:
            properties["price"] = str(chance.randrange(1_000))
        if chance.random() < 0.2:
            properties["色"] = "红 🚀 red"
        if self.light_queues and (names := LIGHT_QUEUES[: chance.randrange(4)]):
            properties["INNER_MULTI_DISPATCH"] = ",".join(names)
        keys = [chance.choice((f"key-{n}", f"键-{n}")) for n in range(chance.randrange(4))]
        return {
            "body": body,
            "tags": chance.choice(TAGS),
            "keys": keys or None,
            "properties": properties if self.light_queues or chance.random() < 0.9 else None,
            "flag": chance.randrange(-(1 << 31), 1 << 31) if chance.random() < 0.25 else 0,
        }


def _one_at_a_time(
    store: reput.Store, messages: Sequence[reput.Message]
) -> Iterable[reput.Receipt]:
    return [store.put(message) for message in messages]


def _put_many(store: reput.Store, messages: Sequence[reput.Message]) -> Iterable[reput.Receipt]:
    return store.put_many(messages)


def _put_whole(store: reput.Store, messages: Sequence[reput.Message]) -> Iterable[reput.Receipt]:
    return store.put_many(messages, whole=True)


CASES = {
    "one-at-a-time": Case(_one_at_a_time),
    "put-many": Case(_put_many, group_size=40, born_here=True),
    "put-many-from-elsewhere": Case(_put_many, group_size=40),
    "batches": Case(_put_whole, group_size=8),
    "batches-born-here": Case(_put_whole, group_size=8, born_here=True),
    "v6-hosts": Case(_one_at_a_time, v6=True),
    "long-topics": Case(_put_many, group_size=4, long_topics=True, born_here=True),
    "transactions": Case(_one_at_a_time, transactions=True),
    "transactions-put-many": Case(_put_many, group_size=5, born_here=True, transactions=True),
    "record-crc": Case(_one_at_a_time, record_crc=True),
}
LIGHT_QUEUES_CASE = Case(_one_at_a_time, light_queues=True)


# --------------------------------------------------------------------------- in one form


def listed(rows: Iterable[Row]) -> list[Row]:
    """Rows of messages that are listed in their queue: no prepared ones, no rollbacks."""
    return [row for row in rows if row["sys_flag"] & ROLLBACK in (0, COMMIT)]


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows of messages, queue after queue."""
    return sorted(rows, key=lambda row: (row["topic"], row["queue_id"], row["queue_offset"]))


def told(view: reput.MessageView) -> Row:
    """What reput says of a stored message, in the words of `java_store.normal`."""
    return {
        "topic": view.topic,
        "queue_id": view.queue_id,
        "queue_offset": view.queue_offset,
        "physical_offset": view.physical_offset,
        "size": view.size,
        "body": view.body,
        "body_crc": view.body_crc,
        "properties": view.properties,
        "born_timestamp": view.born_timestamp,
        "store_timestamp": view.store_timestamp,
        "born_host": view.born_host,
        "store_host": view.store_host,
        "sys_flag": view.sys_flag,
        "flag": view.flag,
        "reconsume_times": view.reconsume_times,
        "prepared_transaction_offset": view.prepared_transaction_offset,
        "msg_id": view.msg_id,
    }


def expected(case: Case, message: reput.Message, receipt: reput.Receipt) -> Row:
    """What any store must say of ``message``, as far as its producer and the receipt tell."""
    store_host = STORE_HOST_V6 if case.v6 else STORE_HOST
    born_host = message.born_host or store_host
    born_timestamp = message.born_timestamp
    assert not isinstance(message.properties, bytes)
    properties = {"KEYS": " ".join(message.keys or ()), "TAGS": message.tags or ""}
    properties |= {name: value or "" for name, value in (message.properties or {}).items()}
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": receipt.queue_offset,
        "physical_offset": receipt.physical_offset,
        "size": receipt.size,
        "body": message.body,
        "body_crc": zlib.crc32(message.body) & 0x7FFFFFFF,
        "properties": {name: value for name, value in properties.items() if value},
        "born_timestamp": receipt.store_timestamp if born_timestamp is None else born_timestamp,
        "store_timestamp": receipt.store_timestamp,
        "born_host": born_host,
        "store_host": store_host,
        "sys_flag": message.sys_flag
        | (BORN_HOST_V6_BIT if ":" in born_host[0] else 0)
        | (STORE_HOST_V6_BIT if case.v6 else 0),
        "flag": message.flag,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "msg_id": receipt.msg_id,
    }


def without_record_crc(rows: Iterable[Row]) -> list[Row]:
    """Rows without the checksum that the store adds to the properties."""
    return [
        {**row, "properties": {k: v for k, v in row["properties"].items() if k != CRC_PROPERTY}}
        for row in rows
    ]


def read_all(store: reput.Store) -> list[Row]:
    """Every message of every queue that reput returns."""
    rows = []
    for queue in store.queues():
        queue_offset = queue.min_queue_offset
        while queue_offset < queue.max_queue_offset:
            result = store.read(queue.topic, queue.queue_id, queue_offset, max_count=32)
            assert result.status is reput.ReadStatus.FOUND
            rows += [told(view) for view in result]
            queue_offset = result.next_queue_offset
    return rows


def queues_of(store: reput.Store) -> dict[tuple[str, int], tuple[int, int]]:
    """Min and max queue offset of every queue."""
    return {
        (queue.topic, queue.queue_id): (queue.min_queue_offset, queue.max_queue_offset)
        for queue in store.queues()
    }


def consume_queue_files(store: Path) -> dict[str, bytes]:
    """Bytes of every consume queue file by its path."""
    files = sorted(path for path in store.glob("consumequeue/*/*/*") if path.is_file())
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in files}
