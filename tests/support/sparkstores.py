"""Small stores for the tests of reput-spark, and what is in them."""

from __future__ import annotations

import reput

FILE_SIZE = 16_384
MESSAGES = 400


def fill(root, count=MESSAGES, first=0):
    """Append messages to the store ``root``, which is made; each says its number."""
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(root, plugins=(), config=config) as store:
        for number in range(first, first + count):
            store.put(
                reput.Message(
                    f"topic-{number % 4}",
                    b"%d " % number * (number * 7 % 60),
                    queue_id=number % 3,
                    tags=("A", "B", None)[number % 3],
                    keys=[f"k{number}", f"half-{number // 2}"],
                    properties={"number": str(number), "weight": str(number % 10)},
                    flag=number,
                )
            )


def messages_of(root):
    """Every message of a store, in the log's order: what rows are compared with."""
    with reput.open(root, "r", plugins=()) as store:
        return [batch.message(row) for batch in store.scan() for row in range(len(batch))]


def forged_store(root, *, before=0):
    """A store with a body that holds a sound record which states its own place.

    Returns:
        Physical offsets of its records, and that of the one in the body.
    """
    config = {"commitlog": {"file_size": 1 << 20}}
    with reput.open(f"{root}-model", plugins=(), config=config) as model:
        for _ in range(before):
            model.put(reput.Message("T", b"a" * 100))
        head = model.put(reput.Message("T", b"a" * 100))
    at = head.physical_offset + head.size + 88  # where the body of the next record begins
    with reput.open(f"{root}-forger", plugins=(), config=config) as forger:
        size = forger.put(reput.Message("T", b"")).size
        forger.put(reput.Message("T", b"y" * (at - size - 91 - 1)))
        made = forger.put(reput.Message("T", b"forged"))
        assert made.physical_offset == at
        forged = forger.log.read(at, made.size)
    with reput.open(root, plugins=(), config=config) as store:
        offsets = [
            store.put(reput.Message("T", body)).physical_offset
            for body in [
                *[b"a" * 100] * (before + 1),
                forged + b"z" * 5_000,
                *[b"%d" % number * 50 for number in range(300)],
            ]
        ]
    return offsets, at
