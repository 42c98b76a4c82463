"""RocketMQ of one version: its class path, and its servers as processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mavenparts
from freeports import free_ports
from mavenparts import JavaFailedError

from realbroker.asking import have_registered, is_registered
from realbroker.hosts import QUICK_START, BrokerHost, broker_config, write_config
from realbroker.peer import Peer
from realbroker.process import START_SECONDS, Process, Server

VERSIONS = ("4.9.7", "5.3.3")
"""The newest usable releases of their series (Maven has no broker of 4.9.8)."""

STORE_CONFIG = {
    "commitlog": {"file_size": 1 << 20},
    "consumequeue": {"units_per_file": 1000},
}
"""With what reput opens the stores of these brokers, unless a broker is told other sizes."""

_PROJECT = Path(__file__).resolve().parent / "java"
_LOGGING = """\
<configuration>
  <appender name="stderr" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="stderr"/></root>
</configuration>
"""


def fetch(version: str) -> RocketMQ:
    """Fetch RocketMQ of ``version`` from Maven and compile the `Peer`, unless that was done before.

    Raises:
        mavenparts.JavaUnavailableError: no Java, no Maven, or no artifacts.
    """
    return RocketMQ(version, mavenparts.build(_PROJECT, version))


@dataclass(frozen=True)
class RocketMQ:
    """Starts the parts of one version."""

    version: str
    class_path: str
    jvm: tuple[str, ...] = mavenparts.SMALL_JVM
    """Options of each part's JVM."""

    def name_server(self, directory: Path, port: int | None = None) -> Server:
        """Start a name server that keeps its files in ``directory``."""
        port = free_ports() if port is None else port
        config = {"listenPort": port, "bindAddress": "127.0.0.1"}
        named = self._home(directory, "namesrv", config)
        command = self._command(directory, "org.apache.rocketmq.namesrv.NamesrvStartup", *named)
        ready = "The Name Server boot success"
        return Server(Process(command, directory, "namesrv", ready), port, directory)

    def broker(
        self,
        directory: Path,
        name_server: str,
        *,
        store: Path | None = None,
        name: str = "broker-a",
        port: int | None = None,
        **options: object,
    ) -> Server:
        """Start a broker, which is registered with ``name_server`` when this returns.

        Args:
            directory: its home: configuration, output.
            name_server: ``host:port``.
            store: directory of its store; ``store`` in its home unless named.
            name: its name in its cluster, ``reput``.
            port: on which it listens; it takes two others beside it.
            options: of its configuration file, by RocketMQ's names.
        """
        port = free_ports(1, -2) if port is None else port
        store = directory / "store" if store is None else store
        config = broker_config(store, name_server, port, {"brokerName": name, **options})
        named = self._home(directory, "broker", config)
        command = self._command(directory, "org.apache.rocketmq.broker.BrokerStartup", *named)
        broker = Server(Process(command, directory, "broker", "boot success"), port, store)
        _wait_registered(broker, name_server)
        return broker

    def broker_host(self, directory: Path) -> BrokerHost:
        """Start a process for brokers, one after the other; ``directory`` is their home."""
        self._home(directory, "broker", {})
        java, *others = self._command(directory, "reput.broker.BrokerHost")
        return BrokerHost([java, *QUICK_START, *others], directory)

    def peer(
        self,
        directory: Path,
        name_server: str,
        *,
        keys: tuple[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Peer:
        """Start the stock client and admin tool, which talk to ``name_server``.

        Args:
            directory: its home.
            name_server: ``host:port``.
            keys: access key and secret key, with which it signs requests.
            properties: of the system, such as ``tls.enable``.
        """
        self._home(directory, "tools", {})
        named = dict(properties or {})
        if keys is not None:
            named |= {"reput.accessKey": keys[0], "reput.secretKey": keys[1]}
            # Where the admin tool looks for them.
            text = f"accessKey: {keys[0]}\nsecretKey: {keys[1]}\n"
            (directory / "conf" / "tools.yml").write_text(text, encoding="utf-8")
        java, *others = self._command(directory, "reput.broker.Peer", name_server)
        given = [f"-D{name}={value}" for name, value in named.items()]
        return Peer([java, *given, *others], directory)

    def _home(self, directory: Path, name: str, config: dict[str, object]) -> tuple[str, str]:
        """Write what a part reads at its start; its options."""
        (directory / "conf").mkdir(parents=True, exist_ok=True)
        (directory / "conf" / f"logback_{name}.xml").write_text(_LOGGING, encoding="ascii")
        return write_config(directory / f"{name}.conf", config)

    def _command(self, directory: Path, main: str, *arguments: str) -> list[str]:
        return [
            mavenparts.executable("java"),
            *self.jvm,
            *mavenparts.OPENED,
            f"-Duser.home={directory}",
            f"-Djava.io.tmpdir={directory}",
            f"-Drocketmq.home.dir={directory}",
            "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
            "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
            "-Drocketmq.client.logUseSlf4j=true",
            "-cp",
            self.class_path,
            main,
            *arguments,
        ]


def _wait_registered(broker: Server, name_server: str) -> None:
    """Return once clients find ``broker``; one of 5.x says that it has started before that."""
    end = time.monotonic() + START_SECONDS
    while not is_registered(name_server, broker.address):
        if broker.process.has_ended(0.1) or time.monotonic() > end:
            broker.kill()
            raise JavaFailedError(f"not registered\n{broker.process.text[-4000:]}")
        have_registered(broker.address)
