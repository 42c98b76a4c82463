"""RocketMQ's proxy, which serves clients for release 5 in front of a cluster's brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import mavenparts
from freeports import free_ports

from realbroker.process import Process

_PROJECT = Path(__file__).resolve().parent / "proxy"
_VERSION = "5.3.3"


@contextmanager
def proxy(
    home: Path,
    name_server: str,
    *,
    cluster: str = "DefaultCluster",
    port: int | None = None,
    jvm: Sequence[str] = mavenparts.SMALL_JVM,
    **options: object,
) -> Iterator[str]:
    """Start a proxy of a cluster; ``host:port`` of its gRPC.

    Args:
        home: its home: configuration, output.
        name_server: ``host:port``.
        cluster: its brokers' name.
        port: on which it listens; a free one unless named.
        jvm: options of its JVM.
        options: others of its configuration file.

    Raises:
        mavenparts.JavaUnavailableError: no Java, no Maven, or no artifacts.
    """
    class_path = mavenparts.build(_PROJECT, _VERSION)
    port = free_ports() if port is None else port
    config = {
        "grpcServerPort": port,
        "namesrvAddr": name_server,
        "proxyMode": "CLUSTER",
        "localServeAddr": "127.0.0.1",
        "remotingListenPort": free_ports(),
        "rocketMQClusterName": cluster,
        **options,
    }
    (home / "conf").mkdir(parents=True)
    path = home / "conf" / "rmq-proxy.json"
    path.write_text(json.dumps(config), encoding="ascii")
    (home / "conf" / "rmq.proxy.logback.xml").write_text("<configuration/>", encoding="ascii")
    command = [
        mavenparts.executable("java"),
        *jvm,
        *mavenparts.OPENED,
        f"-Duser.home={home}",
        f"-Djava.io.tmpdir={home}",
        f"-Drocketmq.home.dir={home}",
        "-Drocketmq.client.logUseSlf4j=true",
        "-cp",
        class_path,
        "org.apache.rocketmq.proxy.ProxyStartup",
        *("-pm", "cluster", "-n", name_server, "-pc", str(path)),
    ]
    with Process(command, home, "proxy", "startup successfully"):
        yield f"127.0.0.1:{port}"
