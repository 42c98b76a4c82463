"""Count the Python calls of each trip through a store: put, dispatch, flush, read, close, open.

Run it with the name of a trip to print each of its calls: ``python tests/support/hops.py flush``.

The store has the Python engine, the plugin ``consumequeue`` and no thread, so that one thread makes
all calls. Only calls of functions in the core and in the plugin count.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

os.environ["REPUT_ENGINE"] = "python"

import reput
import reput_consumequeue

SOURCES = {
    str(Path(package.__file__).parent) + os.sep: package.__name__
    for package in (reput, reput_consumequeue)
}
MESSAGE = reput.Message("orders", b"x" * 100, tags="a", keys="k1", queue_id=0)


def calls_of(work: Callable[[], object]) -> list[str]:
    """The calls of ``work`` in order, each as package, file and function."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        path = frame.f_code.co_filename
        for folder, package in SOURCES.items():
            if path.startswith(folder):
                calls.append(f"{package}/{path[len(folder) :]} {frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def opened(root: str, flush: str = "async") -> reput.Store:
    return reput.open(
        root,
        plugins=["consumequeue"],
        threads=False,
        config={"commitlog": {"file_size": 1 << 26, "flush": flush}},
    )


def filled(root: str, flush: str = "async") -> reput.Store:
    """A store in which everything that happens once has happened."""
    store = opened(root, flush)
    for _ in range(3):
        store.put(MESSAGE)
    store.wait_dispatched()
    return store


def trips(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Each trip's name and calls."""
    with filled(f"{folder}/sync", "sync") as store:
        yield "put sync", calls_of(lambda: store.put(MESSAGE))
    root = f"{folder}/async"
    store = filled(root)
    yield "put", calls_of(lambda: store.put(MESSAGE))
    yield "dispatch", calls_of(store.wait_dispatched)
    yield "flush", calls_of(store.flush)
    yield "read", calls_of(lambda: store.read("orders", 0, 0))
    yield "close", calls_of(store.close)
    stores: list[reput.Store] = []
    yield "open", calls_of(lambda: stores.append(opened(root)))
    stores.pop().close()
    # A process that ends without closing leaves what a kill leaves.
    if (child := os.fork()) == 0:
        opened(root).put(MESSAGE)
        os._exit(0)
    os.waitpid(child, 0)
    yield "open after a kill", calls_of(lambda: stores.append(opened(root)))
    stores.pop().close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = dict(trips(folder))
    if trip := " ".join(sys.argv[1:]):
        lines = found[trip]
    else:
        lines = [json.dumps({name: len(calls) for name, calls in found.items()})]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
