"""Drives Apache RocketMQ's own store, of a released version, through the Java program in ``java/``.

The program is built once per version into ``java/target-<version>`` (ignored by git) and again when
its source changes. By hand, for the figures of a machine::

    python tests/interop/java_store.py 5.3.3 bench /tmp/store --count 1000000 --body 100
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# For runs by hand and benchmarks; pytest has it.
sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

import mavenparts
from mavenparts import OPENED, SMALL_JVM, JavaFailedError, executable

VERSIONS = ("4.9.8", "5.3.3")
"""The newest usable releases of their series (the 5.3.4 artifacts are incomplete)."""

COMMITLOG_SIZE = 65_536
UNITS_PER_FILE = 100
SLOTS_PER_FILE = 50
ITEMS_PER_FILE = 200
EXTEND_FILE_SIZE = 4096
KILLED = 137

INDEXED = ("--index-slots", str(SLOTS_PER_FILE), "--index-max", str(ITEMS_PER_FILE))
"""Options of a store that keeps index files."""
EXTENDED = ("--extend-size", str(EXTEND_FILE_SIZE))
"""Options of a store that keeps extend files; each message has a bit map of its own."""

Row = dict[str, Any]
Queue = tuple[str, int]

_JAVA = Path(__file__).resolve().parent / "java"
_RUN_TIMEOUT = 120
_SIZES = ("--commitlog-size", str(COMMITLOG_SIZE), "--cq-units", str(UNITS_PER_FILE))


@dataclass
class Dump:
    """What the Java store says of a directory that it opened."""

    min_physical_offset: int = 0
    max_physical_offset: int = 0
    queues: dict[Queue, tuple[int, int]] = field(default_factory=dict)
    """Min and max queue offset."""
    messages: list[Row] = field(default_factory=list)
    """Queue after queue, in the order read."""
    reads: list[Row] = field(default_factory=list)
    """Answers at and beyond the ends of each queue."""
    times: list[Row] = field(default_factory=list)
    """Queue offsets at and around each store time, when asked with ``--times``."""
    queries: list[Row] = field(default_factory=list)
    """Answers for each key that a topic's messages have, when asked with ``--queries``."""
    extends: list[Row] = field(default_factory=list)
    """What a filter is asked about, queue after queue, when asked with `EXTENDED`."""
    unread: list[Row] = field(default_factory=list)
    """Reads between min and max offset that found nothing; none in a sound store."""


@dataclass(frozen=True)
class JavaStore:
    """RocketMQ's store of one version."""

    version: str
    class_path: str
    home: Path
    """What Java takes for the home and temporary directory."""
    time_zone: str = "UTC"
    """By which it names index files."""

    @property
    def writes_record_version_2(self) -> bool:
        """Whether it knows topics longer than 127 bytes."""
        return int(self.version.split(".")[0]) >= 5

    @property
    def sends_overflow_to_the_end(self) -> bool:
        """Whether a reader far behind the end goes on there, and not at 0 (4.x)."""
        return int(self.version.split(".")[0]) >= 5

    @property
    def knows_time_boundaries(self) -> bool:
        """Whether it finds the first message since and the last one until a time."""
        return int(self.version.split(".")[0]) >= 5

    @property
    def checks_record_crc(self) -> bool:
        """Whether it knows the checksum over whole records."""
        return int(self.version.split(".")[0]) >= 5

    def dump(self, store: Path, *options: str) -> Dump:
        """Open ``store`` with Java, which recovers and changes it, and read everything."""
        dump = Dump()
        for row in self._rows("dump", store, *_SIZES, *options):
            kind = row.pop("kind")
            if kind == "log":
                dump.min_physical_offset = row["min_physical_offset"]
                dump.max_physical_offset = row["max_physical_offset"]
            elif kind == "queue":
                queue = row["topic"], row["queue_id"]
                dump.queues[queue] = row["min_offset"], row["max_offset"]
            elif kind == "message":
                dump.messages.append(normal(row))
            elif kind == "get_status":
                dump.reads.append(row)
            elif kind == "by_time":
                dump.times.append(row)
            elif kind == "query":
                dump.queries.append(row)
            elif kind == "extend":
                dump.extends.append(row)
            elif kind == "read":
                dump.unread.append(row)
        return dump

    def write(self, store: Path, mode: str, count: int, *options: str) -> list[Row]:
        """Let Java put ``count`` messages into ``store``; what it answered, a row for each."""
        options = ("--mode", mode, "--count", str(count), *_SIZES, *options)
        rows = self._rows("write", store, *options)
        return [normal(row) for row in rows if row.pop("kind") == "put"]

    @contextmanager
    def holding(self, store: Path, count: int) -> Iterator[list[Row]]:
        """Like `write`, with the store open, in its own process, for the time of the block."""
        out = self.home / f"holding-{store.parent.name}.jsonl"
        options = ("--mode", "plain", "--count", str(count), *_SIZES, "--hold")
        command = [*self.command(SMALL_JVM), "write", str(store), str(out), *options]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, text=True, **pipes) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "holding\n"
            yield [normal(row) for row in _read_rows(out) if row.pop("kind") == "put"]
            process.communicate(timeout=_RUN_TIMEOUT)
            assert process.returncode == 0

    def _rows(self, command: str, store: Path, *options: str) -> list[Row]:
        with tempfile.TemporaryDirectory(dir=self.home) as folder:
            out = Path(folder) / "rows.jsonl"
            done = subprocess.run(
                [*self.command(SMALL_JVM), command, str(store), str(out), *options],
                capture_output=True,
                text=True,
                timeout=_RUN_TIMEOUT,
                check=False,
            )
            if done.returncode != (KILLED if "--kill" in options else 0):
                raise JavaFailedError(f"exit {done.returncode}\n{done.stdout}{done.stderr}")
            return _read_rows(out)

    def command(self, options: Sequence[str]) -> list[str]:
        """The command line of the program without its arguments."""
        return [
            executable("java"),
            *options,
            *OPENED,
            f"-Duser.home={self.home}",
            f"-Djava.io.tmpdir={self.home}",
            f"-Duser.timezone={self.time_zone}",
            "-cp",
            self.class_path,
            "reput.interop.Main",
        ]


def _read_rows(path: Path) -> list[Row]:
    with path.open(encoding="ascii") as lines:
        return [json.loads(line) for line in lines]


def normal(row: Row) -> Row:
    """A row as `reput.MessageView` tells it: bytes, and hosts as (address, port)."""
    hosts = {name: _host(row[name]) for name in ("born_host", "store_host")}
    return {**row, **hosts, "body": bytes.fromhex(row["body"])}


def _host(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return str(ipaddress.ip_address(address.strip("[]"))), int(port)


def build(version: str, home: Path) -> JavaStore:
    """Build the program against ``version``, unless that was done before.

    Raises:
        mavenparts.JavaUnavailableError: no Java, no Maven, or no artifacts.
    """
    return JavaStore(version, mavenparts.build(_JAVA, version), home)


def main(arguments: Sequence[str]) -> int:
    """Run the program by hand: a version, then the program's own arguments."""
    with tempfile.TemporaryDirectory() as home:
        java = build(arguments[0], Path(home))
        command = [*java.command(["-Xms2g", "-Xmx4g"]), *arguments[1:]]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
