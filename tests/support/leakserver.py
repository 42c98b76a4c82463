"""A process that serves a store, and tells on each line of its input what it has in memory.

    python leakserver.py STORE

Not a test module. The first line of the output is the broker's port; each further one is JSON: the
memory of the process that no file backs, bytes, and how many objects of each type there are.
"""

from __future__ import annotations

import gc
import json
import sys
from collections import Counter

import reput
from reput_server import ServerConfig, serving

PLUGINS = {"consumequeue", "consumer", "filter", "index", "schedule", "transaction"}
CONFIG = {"commitlog": {"file_size": 16 << 20}, "consumequeue": {"units_per_file": 50_000}}


def memory() -> int:
    """Bytes of the process that no file backs."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon"))


def objects() -> dict[str, int]:
    """How many objects of each type the collector knows; those of the most common ones only."""
    gc.collect()
    found = Counter(
        f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects()
    )
    return dict(found.most_common(400))


def main(path: str) -> None:
    """Serve until the input ends."""
    anywhere = ServerConfig(listen=("127.0.0.1", 0), name_server=None)
    with reput.open(path, plugins=PLUGINS, config=CONFIG) as store:
        with serving(store, anywhere) as server:
            print(server.address[1], flush=True)  # noqa: T201
            for _ in sys.stdin:
                # Half messages that ended are kept until their op markers are written, up to 3 s.
                store.plugin("transaction").settle()
                store.wait_dispatched()
                found = objects()
                print(json.dumps({"memory": memory(), "objects": found}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
