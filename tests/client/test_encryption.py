"""A client whose connections are encrypted, and what it says where that does not work out."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from certificates import Certificates, make_certificates

import reput
from reput.record import Message
from reput_client import Client, ClientError
from reput_server import ServerConfig, TlsConfig, serving

_SMALL = {"commitlog": {"file_size": 1 << 20}, "consumequeue": {"units_per_file": 1_000}}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def address_of(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Serves a store with options of TLS; returns the address of its name server."""
    with ExitStack() as stack:

        def begin(tls: TlsConfig | None) -> str:
            anywhere = ("127.0.0.1", 0)
            config = ServerConfig(listen=anywhere, name_server=anywhere, tls=tls)
            plugins = {"consumequeue", "consumer"}
            store = stack.enter_context(
                reput.open(tmp_path / "store", plugins=plugins, config=_SMALL)
            )
            server = stack.enter_context(serving(store, config))
            assert server.name_server is not None
            return "{}:{}".format(*server.name_server)

        yield begin


def test_what_is_sent_comes_back_by_encrypted_connections(
    files: Certificates, address_of: Callable[..., str]
) -> None:
    address = address_of(files.tls(mode="enforcing", client_ca=files.client_ca))
    with Client(address, tls=files.context(files.client)) as client:
        with client.producer("shop") as producer:
            sent = [producer.send(Message("orders", bytes([at]) * 50_000)) for at in range(5)]
        with client.consumer("billing", "orders", start="earliest") as consumer:
            taken = [consumer.next(20) for _ in range(5)]

    assert all(each.is_ok for each in sent)
    found = [each.body for each in taken if each is not None]
    assert sorted(found) == [bytes([at]) * 50_000 for at in range(5)]


def failure_of(address: str, **options: object) -> str:
    """What a client says that cannot send."""
    with Client(address, retries=0, **options) as client, client.producer("shop") as producer:
        with pytest.raises(ClientError) as error:
            producer.send(Message("orders", b"x"))
    return str(error.value)


def test_one_that_is_not_encrypted_where_it_must_be_is_told_so(
    files: Certificates, address_of: Callable[..., str]
) -> None:
    address = address_of(files.tls(mode="enforcing"))

    assert "tls=" in failure_of(address)


def test_one_that_encrypts_where_nobody_does_is_told_so(
    files: Certificates, address_of: Callable[..., str]
) -> None:
    text = failure_of(address_of(None), tls=files.context())

    assert "it does not speak TLS" in text


def test_a_server_that_nobody_vouches_for_is_not_spoken_to(
    files: Certificates, address_of: Callable[..., str]
) -> None:
    text = failure_of(address_of(files.tls()), tls=ssl.create_default_context())

    assert "its certificate: unable to get local issuer certificate" in text
    assert "load_verify_locations" in text


def test_one_that_shows_no_certificate_where_it_must_is_told_so(
    files: Certificates, address_of: Callable[..., str]
) -> None:
    address = address_of(files.tls(mode="enforcing", client_ca=files.client_ca))

    assert "127.0.0.1" in failure_of(address, tls=files.context())
