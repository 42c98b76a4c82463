"""Encryption and access keys: stock clients at our server, our client at real brokers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from certificates import make_certificates
from realbroker import JavaFailedError, Peer, RocketMQ

import reput
from reput.record import Message
from reput_client import Client, ClientError
from reput_server import Server, ServerConfig, serving

_ANYWHERE = ("127.0.0.1", 0)
_PLUGINS = {"consumequeue", "consumer", "index", "schedule"}
_SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}
_ACCESS, _SECRET = "operator", "secret-1"
_REAL_ACCESS = "rocketmq"

Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves a store with options of the server."""
    with ExitStack() as stack:

        def begin(**options: object) -> Server:
            config = ServerConfig(listen=_ANYWHERE, name_server=_ANYWHERE, **options)
            store = stack.enter_context(
                reput.open(tmp_path / "store", plugins=_PLUGINS, config=_SMALL)
            )
            return stack.enter_context(serving(store, config))

        yield begin


def text_of(address: tuple[str, int] | None) -> str:
    assert address is not None
    return "{}:{}".format(*address)


def sent_and_taken(peer: Peer) -> tuple[set[str], list[str]]:
    """How the sends of a stock client ended, and what its consumer got."""
    messages = [{"topic": "orders", "body": f"{at}", "keys": "k"} for at in range(10)]
    sent = peer.send(messages)
    peer.listen("one", "billing", "orders", start="first")
    taken = peer.taken("one", 10)
    peer.stop("one")
    return {row["status"] for row in sent}, sorted(row["body"] for row in taken)


def test_stock_clients_encrypt(rocketmq: RocketMQ, serve: Serve, tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    server = serve(tls=files.tls(mode="enforcing", client_ca=files.client_ca))
    properties = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": files.ca,
        "tls.client.certPath": files.client,
        "tls.client.keyPath": files.client_key,
    }
    names = text_of(server.name_server)
    with rocketmq.peer(tmp_path / "peer", names, properties=properties) as peer:
        found = sent_and_taken(peer)
        listed = peer.admin("clusterList")

    assert found == ({"SEND_OK"}, [f"{at}" for at in range(10)])
    assert text_of(server.address) in listed


def test_stock_clients_that_do_not_encrypt_are_answered_until_they_must(
    rocketmq: RocketMQ, serve: Serve, tmp_path: Path
) -> None:
    server = serve(tls=make_certificates(tmp_path).tls())
    with rocketmq.peer(tmp_path / "peer", text_of(server.name_server)) as peer:
        assert sent_and_taken(peer)[0] == {"SEND_OK"}


def test_stock_clients_sign(rocketmq: RocketMQ, serve: Serve, tmp_path: Path) -> None:
    server = serve(access_keys={_ACCESS: _SECRET})
    names, broker = text_of(server.name_server), text_of(server.address)
    with rocketmq.peer(tmp_path / "peer", names, keys=(_ACCESS, _SECRET)) as peer:
        found = sent_and_taken(peer)
        made = peer.admin("updateTopic", "-b", broker, "-t", "made", "-r", "3", "-w", "3")
        by_key = peer.admin("queryMsgByKey", "-t", "orders", "-k", "k")

    assert found == ({"SEND_OK"}, [f"{at}" for at in range(10)])
    assert "create topic to" in made
    assert re.search(r"broker-a|[0-9A-F]{32}", by_key)


@pytest.mark.parametrize(
    ("keys", "said"),
    [(None, "no known access key"), ((_ACCESS, "wrong"), "the signature is not that of")],
)
def test_stock_clients_that_sign_wrongly_are_refused_with_a_word(
    rocketmq: RocketMQ,
    serve: Serve,
    tmp_path: Path,
    keys: tuple[str, str] | None,
    said: str,
) -> None:
    server = serve(access_keys={_ACCESS: _SECRET})
    with rocketmq.peer(tmp_path / "peer", text_of(server.name_server), keys=keys) as peer:
        with pytest.raises(JavaFailedError, match=r"MQ(Client|Broker)Exception"):
            peer.send([{"topic": "TBW102", "body": "x"}])
        with pytest.raises(JavaFailedError, match=said):
            peer.admin("brokerStatus", "-b", text_of(server.address))

    assert server.store is not None
    assert server.store.log.max_physical_offset == 0


_ACL_4 = f"""\
accounts:
- accessKey: {_REAL_ACCESS}
  secretKey: {_SECRET}
  admin: true
"""
_PROVIDERS = "org.apache.rocketmq.auth.authentication.provider."
_ACL_5 = {
    "authenticationEnabled": "true",
    "authenticationProvider": f"{_PROVIDERS}DefaultAuthenticationProvider",
    "authenticationMetadataProvider": f"{_PROVIDERS}LocalAuthenticationMetadataProvider",
    "initAuthenticationUser": f'{{"username":"{_REAL_ACCESS}","password":"{_SECRET}"}}',
    "innerClientAuthenticationCredentials": (
        f'{{"accessKey":"{_REAL_ACCESS}","secretKey":"{_SECRET}"}}'
    ),
}


def test_our_client_signs_for_a_real_broker(rocketmq: RocketMQ, tmp_path: Path) -> None:
    home = tmp_path / "broker"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(_ACL_4)
    options = {"aclEnable": "true"} if rocketmq.version.startswith("4") else _ACL_5
    with (
        rocketmq.name_server(tmp_path / "names") as names,
        rocketmq.broker(home, names.address, **options) as broker,
    ):
        keys = {"access_key": _REAL_ACCESS, "secret_key": _SECRET}
        with Client(names.address, **keys) as client, client.producer("shop") as producer:
            sent = [producer.send(Message("orders", b"%d" % at)) for at in range(10)]
            with client.consumer("billing", "orders", start="earliest") as consumer:
                taken = [consumer.next(30) for _ in range(10)]
        wrong = {**keys, "secret_key": "wrong"}
        with (
            Client(names.address, retries=0, **wrong) as client,
            client.producer("shop") as producer,
            pytest.raises(ClientError, match=broker.address),
        ):
            producer.send(Message("orders", b"x"))

    assert all(each.is_ok for each in sent)
    assert sorted(each.body for each in taken if each) == [b"%d" % at for at in range(10)]
