"""Another process that sees a record's size sees the whole record; see `Region.copy_last`."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from bothengines import python_engine

import reput
from reput.record.encoding.encoder import Encoder

ROUNDS = 500
READER = """
import mmap, sys

position = int(sys.argv[2])
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
    for line in sys.stdin:
        size, count, body_size = map(int, line.split())
        word, end = size.to_bytes(4, "big"), position + size * count
        print("watching", flush=True)
        # A word that crosses a cache line may be seen in two parts.
        for _ in range(100_000_000):
            if log[position : position + 4] == word:
                break
        last, whole = log[end - 1], log[position + 4 : end]
        is_whole = last == 2 and whole.count(b"x" * body_size) == count
        print("whole" if is_whole else f"torn at {position}: {last}", flush=True)
        position = end
"""


@pytest.mark.parametrize("engine", [python_engine, contextlib.nullcontext])
@pytest.mark.parametrize(("count", "body_size"), [(1, 60_001), (3, 10_002), (2, 2_003)])
@pytest.mark.costly
def test_another_process_that_sees_a_size_sees_the_whole_record(tmp_path, engine, count, body_size):
    """Put at once, written through the file, and written through the map."""
    message = reput.Message("T", b"x" * body_size, properties={"a": "b"})
    size = len(Encoder().encode(message, 0, 0, 1))
    config = {"commitlog": {"file_size": 1 << 25}}
    seen = []

    with engine(), reput.open(tmp_path, plugins=(), config=config) as store:
        path = tmp_path / "commitlog" / f"{0:020}"
        first = store.put(reput.Message("T", b"makes the file"))
        with subprocess.Popen(
            [sys.executable, "-c", READER, path, str(first.size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as reader:
            try:
                for _ in range(ROUNDS):
                    print(size, count, body_size, file=reader.stdin, flush=True)
                    assert reader.stdout.readline() == "watching\n"
                    store.put(message) if count == 1 else store.put_many([message] * count)
                    seen.append(reader.stdout.readline())
                reader.stdin.close()
            finally:
                reader.kill()

    assert seen == ["whole\n"] * ROUNDS
