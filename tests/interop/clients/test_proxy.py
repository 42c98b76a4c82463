"""RocketMQ's own proxy in cluster mode in front of the server, and a released client of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mavenparts
import pytest
from realbroker import Process, free_ports
from test_python5 import CLIENT, EXPECTED, run

from reput_server import LocalBroker

HERE = Path(__file__).parent
VERSION = "5.3.3"
LOGGING = "<configuration/>"
pytestmark = pytest.mark.skipif(
    not (CLIENT / "rocketmq").is_dir(), reason="needs rocketmq-python-client below REPUT_PYTHON5"
)


@contextmanager
def proxy(home: Path, broker: LocalBroker) -> Iterator[str]:
    """Start a proxy of the broker's cluster; its address."""
    try:
        class_path = mavenparts.build(HERE / "proxy", VERSION)
    except mavenparts.JavaUnavailableError as error:
        pytest.skip(str(error))
    grpc, remoting = free_ports(), free_ports()
    config = {
        "grpcServerPort": grpc,
        "namesrvAddr": broker.name_server,
        "proxyMode": "CLUSTER",
        "remotingListenPort": remoting,
        "rocketMQClusterName": "DefaultCluster",
    }
    (home / "conf").mkdir(parents=True)
    path = home / "conf" / "rmq-proxy.json"
    path.write_text(json.dumps(config), encoding="ascii")
    (home / "conf" / "rmq.proxy.logback.xml").write_text(LOGGING, encoding="ascii")
    command = [
        mavenparts.executable("java"),
        *mavenparts.SMALL_JVM,
        *mavenparts.OPENED,
        f"-Duser.home={home}",
        f"-Djava.io.tmpdir={home}",
        f"-Drocketmq.home.dir={home}",
        "-Drocketmq.client.logUseSlf4j=true",
        "-cp",
        class_path,
        "org.apache.rocketmq.proxy.ProxyStartup",
        *("-pm", "cluster", "-n", broker.name_server, "-pc", str(path)),
    ]
    with Process(command, home, "proxy", "startup successfully"):
        yield f"127.0.0.1:{grpc}"


def test_a_client_of_the_proxy_does_what_it_can(tmp_path: Path):
    with LocalBroker() as broker:
        for name in ("NORMAL", "FIFO", "DELAY", "TRANSACTION"):
            broker.create_topic(name.lower(), message_type=name)
        broker.create_group("ordered", ordered=True)
        with proxy(tmp_path / "proxy", broker) as endpoints:
            said = run(str(HERE / "python5" / "program.py"), endpoints)
        (retried,) = broker.messages("%RETRY%push_normal")

    assert said == EXPECTED
    assert (retried.body, retried.reconsume_times) == (b"one", 1)
