"""Brokers one after the other in one JVM: most of the time of a broker's start is Java's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from lineprocess import LineProcess
from mavenparts import JavaFailedError

from realbroker.asking import have_registered, is_registered
from realbroker.process import START_SECONDS

QUICK_START = (
    # A broker makes a certificate of its own at each start.
    "-Dtls.server.mode=disabled",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Options of a JVM that leave out what takes a third of a start, and no test needs."""
_SIZES = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 1000 * 20,
    "maxHashSlotNum": 500,
    "maxIndexNum": 2000,
}
_PATIENT = {
    # A machine that does much else must not make a broker refuse messages.
    "waitTimeMillsInSendQueue": 30_000,
    "waitTimeMillsInPullQueue": 30_000,
    "waitTimeMillsInHeartbeatQueue": 60_000,
    "osPageCacheBusyTimeOutMills": 30_000,
    "diskMaxUsedSpaceRatio": 95,
}


def broker_config(
    store: Path, name_server: str, port: int, options: Mapping[str, object]
) -> dict[str, object]:
    """What the configuration file of a broker says, by RocketMQ's names."""
    return {
        "brokerClusterName": "reput",
        "brokerName": "broker-a",
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "bindAddress": "127.0.0.1",
        "listenPort": port,
        "haListenPort": port + 1,
        "namesrvAddr": name_server,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        **_SIZES,
        **_PATIENT,
        **options,
    }


def write_config(path: Path, config: Mapping[str, object]) -> tuple[str, str]:
    """Write a configuration file; the options of a command that takes it."""
    lines = "".join(f"{key}={value}\n" for key, value in config.items())
    path.write_text(lines, encoding="utf-8")
    return "-c", str(path)


class BrokerHost(LineProcess):
    """A Java process that runs one broker after the other; its end kills the broker in it."""

    failed = JavaFailedError
    started = 0
    """How many brokers it has started."""

    def start(self, store: Path, name_server: str, port: int, **options: object) -> None:
        """Start a broker, which is registered with ``name_server`` when this returns.

        Raises:
            JavaFailedError: the broker does not start.
        """
        self.started += 1
        config = broker_config(store, name_server, port, options)
        self.ask(do="start", arguments=write_config(self.home / "host.conf", config))
        address, end = f"127.0.0.1:{port}", time.monotonic() + START_SECONDS
        while not is_registered(name_server, address):
            if time.monotonic() > end:
                raise JavaFailedError("not registered")
            have_registered(address)

    def stop(self) -> None:
        """Shut the broker down as an operator does; the process can start another one."""
        self.ask(do="stop")
