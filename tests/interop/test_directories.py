"""Each kind of directory, written by a broker of each release: all that reput does with it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from brokerdirectories import WRITTEN, snapshot
from click.testing import CliRunner
from openstores import until
from realbroker import STORE_CONFIG, BrokerHost, JavaFailedError, Peer, RocketMQ, free_ports

import reput
from reput.errors import UnsupportedFilesError
from reput_tools.cli.root import reput as program
from reput_tools.doctor import Severity, verify

TOPIC = "orders"
QUEUES = 4
DELAY = "TIMER_DELAY_SEC"
COUNT = 80
"""Messages that each of the writers sends."""
DEFAULTS = {"mappedFileSizeConsumeQueue": 6_000_000}
Place = tuple[int, int]
"""Queue and queue offset."""


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of directory."""

    options: Mapping[str, object] = {}
    """Of the broker's configuration file."""
    is_dledger: bool = False
    is_mixed: bool = False
    """Whether there is a plain log before that of DLedger."""
    is_killed: bool = False
    is_batch: bool = False
    has_tables: bool = False
    """Whether settings are in RocksDB."""
    is_written: bool = True
    is_converted: bool = False


ROCKSDB: dict[str, Any] = {"has_tables": True, "is_converted": True}
DLEDGER: dict[str, Any] = {"is_dledger": True, "is_converted": True}
KINDS = {
    "plain": Kind(),
    "dledger": Kind(**DLEDGER),
    "dledger-killed": Kind(**DLEDGER, is_killed=True),
    "dledger-mixed": Kind(**DLEDGER, is_mixed=True),
    "batch": Kind(is_batch=True),
    "rocksdb": Kind(options={"storeType": "defaultRocksDB"}, is_written=False, **ROCKSDB),
    "rocksdb-and-plain": Kind(
        options={"rocksdbCQDoubleWriteEnable": "true", "combineCQUseRocksdbForLmq": "true"},
        is_written=False,
        is_converted=True,
    ),
    "settings": Kind(options={"configManagerVersion": "v2"}, **ROCKSDB),
    "settings-single": Kind(
        options={"storeType": "defaultRocksDB", "useSingleRocksDBForAllConfigs": "true"},
        is_written=False,
        **ROCKSDB,
    ),
    "timers": Kind(options={"timerRocksDBEnable": "true"}, is_written=False),
}
CASES = sorted((release, name) for name in KINDS for release in WRITTEN[name][1])


@attrs.define(eq=False)
class Directory:
    """A broker's directory, and all messages that it must have."""

    kind: Kind
    release: RocketMQ
    home: Path
    names: str
    peer: Peer
    host: BrokerHost
    port: int = attrs.Factory(lambda: free_ports(1, -2))
    group: str = ""
    bodies: dict[Place, str] = attrs.Factory(dict)
    sent: int = 0

    @property
    def root(self) -> Path:
        return self.home / "store"

    def start(self, root: Path, *, is_plain: bool = False) -> None:
        options = dict(self.kind.options)
        if is_plain:  # with RocketMQ's own sizes where the directory had no such files
            options = dict(DEFAULTS) if "storeType" in options else {}
        elif self.kind.is_dledger:
            options |= {
                "enableDLegerCommitLog": "true",
                "dLegerGroup": "broker-a",
                "dLegerPeers": f"n0-127.0.0.1:{free_ports()}",
                "dLegerSelfId": "n0",
            }
        self.host.start(root, self.names, self.port, **options)

    def create_topic(self) -> None:
        attributes = ["-a", "+queue.type=BatchCQ"] if self.kind.is_batch else []
        counts = ["-r", str(QUEUES), "-w", str(QUEUES)]
        broker = f"127.0.0.1:{self.port}"
        self.peer.admin("updateTopic", "-b", broker, "-t", TOPIC, *counts, *attributes)
        for _ in range(5):  # a new group of DLedger elects for longer than a producer waits
            with contextlib.suppress(JavaFailedError):
                self.peer.send([{"topic": "begin", "body": "1"}])
                break

    def send(self, *, in_batches: bool = False) -> None:
        """A stock producer sends messages."""
        asked = [
            {"topic": TOPIC, "queue_id": at % QUEUES, "body": self.body(), "keys": f"k{at}"}
            for at in range(COUNT)
        ]
        if in_batches:
            two = [{**each, "bodies": [self.body(), self.body()]} for each in asked[:8]]
            asked = [*asked, *two]
        if "timerRocksDBEnable" in self.kind.options:
            asked.append({"topic": TOPIC, "body": "late", "properties": {DELAY: "86400"}})
        assert {row["status"] for row in self.peer.send(asked)} == {"SEND_OK"}

    def body(self) -> str:
        self.sent += 1
        return f"{self.sent:06}"

    def take(self) -> None:
        """A stock consumer gets all messages, each once, and those that were there before."""
        self.group = f"group-{self.home.name}-{self.sent}-{len(self.bodies)}"
        self.peer.listen(self.group, self.group, TOPIC, start="first")
        rows = self.peer.taken(self.group, self.sent, 120)
        self.peer.stop(self.group)
        taken = {(row["queue_id"], row["queue_offset"]): row["body"] for row in rows}
        self.compare(taken, len(rows))

    def compare(self, found: dict[Place, str], count: int) -> None:
        """Messages that were seen before keep their places; the others are new."""
        assert sorted(found.values()) == [f"{at + 1:06}" for at in range(self.sent)]
        assert count == self.sent
        assert found.items() >= self.bodies.items()
        self.bodies = found

    def require(self, root: Path, *, is_healthy: bool = True) -> None:
        """Reput reads all messages; and `verify` finds nothing."""
        with reput.open(root, "r", config=STORE_CONFIG) as store:
            views = list(store.messages(TOPIC))
            keyed = store.query(TOPIC, "k7").messages
        found = {(each.queue_id, each.queue_offset): bytes(each.body).decode() for each in views}
        self.compare(found, len(views))
        assert {bytes(each.body).decode() for each in keyed} >= {self.bodies[7 % QUEUES, 1]}
        findings = [each for each in verify(root).findings if each.severity > Severity.NOTICE]
        assert not is_healthy or findings == []

    def follow(self, *source: object, is_behind: bool = False) -> None:
        """A replica has all messages, or at least those that DLedger noted as committed."""
        replica = self.home / f"replica{source[0]}"
        run("follow", replica, *source, "--once", "--metadata")
        if not is_behind:
            self.require(replica)
            return
        with reput.open(replica, "r", config=STORE_CONFIG) as store:
            for each in store.messages(TOPIC):
                place = each.queue_id, each.queue_offset
                assert self.bodies[place] == bytes(each.body).decode()

    def write(self) -> None:
        with reput.open(self.root, "w", config=STORE_CONFIG) as store:
            for at in range(COUNT):
                store.put(reput.Message(TOPIC, self.body().encode(), at % QUEUES, keys=f"k{at}"))

    def serve(self, root: Path, *options: str) -> None:
        """``reput serve`` does for stock clients what the broker did."""
        command = [sys.executable, "-m", "reput", "serve", str(root), "--json", *options]
        command += ["--listen", "127.0.0.1:0", "--namesrv", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                names = json.loads(server.stdout.readline())["name_server"]
                with self.release.peer(self.home / f"served-{self.sent}", names) as peer:
                    served = attrs.evolve(self, peer=peer)
                    if not options:
                        served.send()
                    served.take()
            finally:
                server.terminate()
                server.stdout.read()
        assert server.returncode == 0
        self.sent, self.bodies = served.sent, served.bodies


def run(*arguments: object, codes: tuple[int, ...] = (0,)) -> None:
    done = CliRunner().invoke(program, [*map(str, arguments)])
    assert done.exit_code in codes, done.output


@pytest.fixture(scope="module")
def servers(
    request: pytest.FixtureRequest,
    fetch_release: Callable[[str], RocketMQ],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RocketMQ, str, Peer]]:
    """A release, the address of its name server, and its clients."""
    release = fetch_release(request.param)
    home = tmp_path_factory.mktemp("servers")
    with (
        release.name_server(home / "names") as names,
        release.peer(home / "peer", names.address) as peer,
    ):
        yield release, names.address, peer


@pytest.mark.parametrize(("servers", "name"), CASES, indirect=["servers"])
def test_a_directory_of_a_broker_is_used_and_given_back(
    servers: tuple[RocketMQ, str, Peer], name: str, tmp_path: Path
) -> None:
    release, names, peer = servers
    kind = KINDS[name]
    if kind.has_tables:
        pytest.importorskip("rocksdict")
    with contextlib.ExitStack() as jvms:
        host = jvms.enter_context(release.broker_host(tmp_path / "jvm"))
        made = Directory(kind, release, tmp_path, names, peer, host)
        if kind.is_mixed:
            made.start(made.root, is_plain=True)
            made.create_topic()
            made.send()
            host.stop()
        made.start(made.root)
        made.create_topic()
        made.send(in_batches=kind.is_batch)
        made.take()
        if not kind.is_dledger:
            made.follow("--from", f"127.0.0.1:{made.port}")
        if kind.is_killed:
            # A follower waits for the file that notes what is committed.
            until((made.root / "dledger-n0" / "checkpoint").exists)
            host.kill()
            made.host = jvms.enter_context(release.broker_host(tmp_path / "again"))
        else:
            host.stop()
        made.require(made.root)
        before = snapshot(made.root)
        made.follow("--directory", made.root, is_behind=kind.is_killed)
        if kind.is_converted:
            # A killed broker may not have noted the last entries as committed, which is named.
            codes = (0, 7) if kind.is_killed else (0,)
            run("convert", made.root, tmp_path / "converted", codes=codes)
            made.require(tmp_path / "converted")
            made.start(tmp_path / "converted", is_plain=True)
            made.take()
            made.host.stop()
        elif not kind.is_written:
            run("convert", made.root, tmp_path / "converted", codes=(6,))
        if not kind.is_written or kind.has_tables:
            made.serve(made.root, "--read-only")
        assert snapshot(made.root) == before

        if not kind.is_written:
            with pytest.raises(UnsupportedFilesError):
                reput.open(made.root, "w")
            assert snapshot(made.root) == before
            return
        made.write()
        made.require(made.root)
        if not kind.has_tables:
            made.serve(made.root)
        made.start(made.root)
        made.take()
        made.send()
        made.take()
        made.host.stop()
        made.require(made.root)
        if kind.is_killed:  # its broker has noted what it had not
            made.follow("--directory", made.root)
