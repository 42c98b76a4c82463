"""What commands print on terminals of 80 and 120 columns, compared with recordings.

``python tests/compose/test_recordings.py`` writes the recordings again; look at what changes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

import reput
from reput import Message

DIRECTORY = Path(__file__).parent / "recordings"
NAME = "/tmp/reput-recorded-abcdefgh"
"""The directory in recordings; as long as that of the stores, since lines are wrapped."""
START = 1_700_000_000_000
SIZES = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 1_000},
    "index": {"slots_per_file": 5_000, "items_per_file": 20_000},
}
ALL = "select * from messages limit 3"
SOME = "select topic, queue_offset, tags, body from messages where queue_offset < 2"
RECORDINGS = {
    ("help", 80): ["--help"],
    ("help", 120): ["--help"],
    ("help-cat", 80): ["cat", "--help"],
    ("help-sql", 80): ["sql", "--help"],
    ("help-sql", 120): ["sql", "--help"],
    ("sql-all-columns", 80): ["sql", "store", ALL],
    ("sql-all-columns", 120): ["sql", "store", ALL],
    ("sql-some-columns", 80): ["sql", "store", SOME],
    ("sql-lines", 80): ["sql", "store", f"{SOME} limit 1", "--format", "line"],
    ("cat-width", 80): ["cat", "store", "orders", "--last", "2", "--width", "0"],
    ("cat-pretty", 80): ["cat", "store", "orders", "--last", "1", "--pretty"],
    ("plugins", 80): ["plugins", "store"],
    ("verify-changed-key", 80): ["verify", "changed"],
    ("verify-changed-key", 120): ["verify", "changed"],
    ("repair-dry-run", 40): ["repair", "lacking", "--dry-run"],
    ("repair-dry-run", 80): ["repair", "lacking", "--dry-run"],
}
"""By name and width of the terminal."""
VARIABLE = re.compile(
    r"^  (time     |derived  | *engine |spark  ).*\n|(?<=idle )( +\d+  -).*$|(?<=_timestamp  )\d.*",
    re.MULTILINE,
)


def make_stores(root: Path) -> None:
    """Make a store, one with a changed key in its log, and one that lacks a file of a queue."""
    for name in ("store", "changed", "lacking"):
        clock = iter(range(START, START + 10**9, 700))
        with reput.open(
            root / name,
            plugins=["consumequeue", "filter", "index"],
            config=SIZES,
            threads=False,
            clock=lambda clock=clock: next(clock),
        ) as store:
            for number in range(40):
                body = b'{"id": %d, "customer": {"name": "Ada", "tags": ["a", "b"]}}' % number
                store.put(
                    Message(
                        "orders",
                        body,
                        queue_id=number % 2,
                        tags="paid",
                        keys=f"order-{number}",
                        properties={"region": "eu", "amount": str(number)},
                        born_timestamp=START,
                    )
                )
    (log,) = (root / "changed" / "commitlog").iterdir()
    with open(log, "r+b") as file:
        data = file.read(1 << 16)
        file.seek(data.index(b"order-20"))
        file.write(b"nrder-20")
    (root / "lacking" / "consumequeue" / "orders" / "1" / f"{0:020d}").unlink()


def on_terminal(command: list[str], width: int, directory: Path) -> str:
    """Return what a command prints on a terminal, without colours and what varies."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {"TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "reput_tools.cli", *command],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=directory,
        env=environment,
    )
    os.close(follower)
    parts = []
    try:
        while part := os.read(leader, 1 << 16):
            parts.append(part)
    except OSError:  # the other side is closed
        pass
    os.close(leader)
    code = process.wait()
    text = b"".join(parts).decode().replace("\r\n", "\n").replace(str(directory), NAME)
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    text = "\n".join(line.rstrip() for line in VARIABLE.sub("", text).split("\n"))
    return f"$ reput {' '.join(command)}\n{text}[exit {code}]\n"


@contextlib.contextmanager
def made_stores() -> Iterator[Path]:
    """Make the stores in a directory whose name is as long as `NAME`."""
    with tempfile.TemporaryDirectory(prefix="reput-recorded-", dir="/tmp") as root:
        directory = Path(root)
        assert len(root) == len(NAME)
        make_stores(directory)
        yield directory


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with made_stores() as directory:
        yield directory


@pytest.mark.parametrize(("name", "width"), RECORDINGS)
@pytest.mark.costly
def test_a_command_prints_what_was_recorded(name, width, directory) -> None:
    recorded = (DIRECTORY / f"{name}-{width}.txt").read_text(encoding="utf-8")

    printed = on_terminal(RECORDINGS[name, width], width, directory)

    assert printed == recorded


def renew() -> None:
    """Write all recordings again."""
    with made_stores() as directory:
        for (name, width), command in RECORDINGS.items():
            text = on_terminal(command, width, directory)
            (DIRECTORY / f"{name}-{width}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    renew()
