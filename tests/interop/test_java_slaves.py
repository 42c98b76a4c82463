"""Stock slaves copy our log and settings, serve when we are killed, and are waited for."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from realbroker import RocketMQ, free_ports
from wirepeer import WirePeer, message

from reput_client.remoting import RequestCode, parse_body
from reput_tools.brokerfiles import decode

FILE_SIZE = 1 << 20
CONFIG = f"[commitlog]\nfile_size = {FILE_SIZE}\n[consumequeue]\nunits_per_file = 1000\n"
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": True}
WAIT = 150
"""Seconds; slaves of 5.x fetch settings once a minute."""


class Master:
    """`reput serve` as a process, which is killed and started again."""

    def __init__(self, directory: Path, names: str = "", *options: str) -> None:
        """Write its options; without ``names`` it is its own name server, at `names`."""
        directory.mkdir()
        self.store = directory / "store"
        self.port = free_ports(1, 2, -2)
        self.names = names or f"127.0.0.1:{self.port + 2}"
        where = ["none", "--register", names] if names else [self.names]
        (directory / "serve.toml").write_text(CONFIG)
        self._command = [
            *(sys.executable, "-m", "reput", "serve", str(self.store), "--json"),
            *("--listen", f"127.0.0.1:{self.port}", "--namesrv", *where),
            *("--replicas", f"127.0.0.1:{self.port + 1}", "--cluster", "reput"),
            *("--name", "broker-a", "--config", str(directory / "serve.toml"), *options),
        ]

    @contextlib.contextmanager
    def life(self) -> Iterator[subprocess.Popen[bytes]]:
        """Serve for the time of a block; at its end the process ends in order, if it lives."""
        with subprocess.Popen(self._command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                facts = json.loads(process.stdout.readline())
                assert facts["replicas"] == f"127.0.0.1:{self.port + 1}"
                yield process
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0 or process.returncode == -signal.SIGKILL
            finally:
                process.kill()

    def ask(self, code: int, header: object = None, body: bytes = b"") -> bytes:
        with WirePeer(("127.0.0.1", self.port), 60) as peer:
            answer = peer.ask(code, header, body=body)
        assert answer.code == 0, answer.remark
        return answer.body

    def replicas(self) -> list[dict[str, Any]]:
        """What the server says of each slave that is connected."""
        found = parse_body(self.ask(RequestCode.GET_BROKER_HA_STATUS), "status")
        connected: list[dict[str, Any]] = found["haConnectionInfo"]
        return connected

    def log(self) -> dict[str, bytes]:
        """The files of the log, up to where it ends now."""
        table = parse_body(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO), "runtime")["table"]
        return log_bytes(self.store, int(table["commitLogMaxOffset"]))


def log_bytes(store: Path, end: int) -> dict[str, bytes]:
    found = {}
    for path in sorted((store / "commitlog").iterdir()):
        base = int(path.name)
        if base < end:
            found[path.name] = path.read_bytes()[: end - base]
    return found


def until(holds: Callable[[], Any], seconds: float = WAIT) -> Any:
    end, pause = time.monotonic() + seconds, threading.Event()
    while not (found := holds()):
        assert time.monotonic() < end, f"not in {seconds} s"
        pause.wait(0.1)
    return found


def same_log(master: Master, slave: Path) -> None:
    """Return when a slave has the master's log, byte for byte."""
    expected = master.log()
    end = max(map(int, expected)) + len(expected[max(expected)])
    until(lambda: log_bytes(slave, end) == expected)


def settings(store: Path, name: str) -> dict[str, Any]:
    path = store / "config" / name
    return decode(path.read_bytes()) if path.exists() else {}


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [
        {"topic": "orders", "body": f"{at} " + "x" * (at % 900), "tags": "a", "keys": f"k{at}"}
        for at in range(first, first + count)
    ]


def same_settings(master: Path, slave: Path) -> bool:
    """Whether a slave has the tables of our files; it may have more of its own."""
    for name, table in [
        ("topics.json", "topicConfigTable"),
        ("subscriptionGroup.json", "subscriptionGroupTable"),
        ("consumerOffset.json", "offsetTable"),
        ("delayOffset.json", "offsetTable"),
    ]:
        own, theirs = settings(master, name).get(table), settings(slave, name).get(table, {})
        if not own or not all(is_same(value, theirs.get(key)) for key, value in own.items()):
            return False
    return True


def is_same(own: object, theirs: object) -> bool:
    """Whether a slave has an entry; a 4.x one drops the members that it does not know."""
    if isinstance(own, dict) and isinstance(theirs, dict):
        return bool(theirs) and {each: own.get(each) for each in theirs} == theirs
    return own == theirs


def test_a_slave_has_our_log_and_settings_and_serves_when_we_are_killed(
    rocketmq: RocketMQ, tmp_path: Path
):
    with contextlib.ExitStack() as stack:
        names = stack.enter_context(rocketmq.name_server(tmp_path / "names"))
        master = Master(tmp_path / "master", names.address)
        with master.life() as process:
            slave = rocketmq.broker(tmp_path / "slave", names.address, **SLAVE)
            stack.callback(lambda: slave.stop())
            peer = stack.enter_context(rocketmq.peer(tmp_path / "peer", names.address))

            until(master.replicas)  # an empty slave begins with the latest file
            peer.send(rows(0, 2_500))
            late = message("orders", properties="DELAY\x011\x02")
            master.ask(RequestCode.SEND_MESSAGE_V2, late, b"later")
            peer.listen("one", "billing", "orders", start="first")
            assert len(peer.taken("one", 2_501)) == 2_501  # with the one that was delayed
            peer.stop("one")
            same_log(master, slave.store)
            assert len(master.log()) > 1
            until(lambda: same_settings(master.store, slave.store))

            sent = peer.send(rows(2_500, 20))
            assert [each["status"] for each in sent] == ["SEND_OK"] * 20
            same_log(master, slave.store)
            process.kill()
            peer.listen("two", "billing", "orders")  # its offsets are the slave's
            assert len(peer.taken("two", 20, WAIT)) == 20

        slave.stop()
        slave = rocketmq.broker(tmp_path / "slave", names.address, port=slave.port, **SLAVE)
        with master.life():
            until(lambda: peer.send(rows(3_000, 1))[0]["status"] == "SEND_OK")
            peer.send(rows(3_001, 300))
            same_log(master, slave.store)
            (status,) = master.replicas()

    assert status["inSync"]


def test_sends_wait_for_a_stock_slave(rocketmq: RocketMQ, tmp_path: Path):
    with contextlib.ExitStack() as stack:
        master = Master(tmp_path / "master", "", "--sync-replicas", "1")
        stack.enter_context(master.life())
        peer = stack.enter_context(rocketmq.peer(tmp_path / "peer", master.names))

        alone = peer.send(rows(0, 2))
        with rocketmq.broker(tmp_path / "slave", master.names, **SLAVE) as slave:
            # Its first report counts for nothing, and its next one comes in 5 s at most.
            until(lambda: any(each["inSync"] for each in master.replicas()))
            together = peer.send(rows(2, 50))
            same_log(master, slave.store)
            status = master.replicas()
            if rocketmq.version.startswith("5"):  # the tool of 4.9 does not ask
                shown = peer.admin("haStatus", "-b", f"127.0.0.1:{master.port}")
                assert "SlaveNum" in shown
        until(lambda: not master.replicas())
        after = peer.send(rows(52, 2))

    assert {each["status"] for each in alone} == {"SLAVE_NOT_AVAILABLE"}
    assert {each["status"] for each in together} == {"SEND_OK"}
    assert {each["status"] for each in after} == {"SLAVE_NOT_AVAILABLE"}
    assert [each["inSync"] for each in status] == [True]
