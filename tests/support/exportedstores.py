"""A store whose messages are spread over topics and two days, and the rows of an export of it."""

from __future__ import annotations

import pyarrow.dataset as ds

import reput


class Clock:
    """Goes on by five minutes a message, over the year's end."""

    now = 1_704_060_000_000  # 2023-12-31T22:00Z

    def __call__(self):
        self.now += 300_000
        return self.now


def make_store(root):
    """1,200 messages in three topics, one of retries and one with a strange name."""
    config = {"commitlog": {"file_size": 1 << 15}}
    with reput.open(root, plugins=(), config=config, clock=Clock()) as store:
        for number in range(1_200):
            store.put(
                reput.Message(
                    ("orders", "%RETRY%group", "plain|name")[number % 3],
                    b"%d " % number * (number % 40),
                    queue_id=number % 2,
                    keys=[f"k{number}"],
                    properties={"number": str(number)},
                )
            )
    return root


def read_back(target):
    """All rows, in the order of the log."""
    return ds.dataset(target, partitioning="hive").to_table().sort_by("physical_offset")
