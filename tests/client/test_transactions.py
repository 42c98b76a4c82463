"""Messages that become visible with a transaction, with a cluster in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from fakecluster import FakeCluster, Fault

from reput.record import Message, MessageView
from reput_client import (
    BrokerError,
    Client,
    GroupTakenError,
    SendError,
    TransactionOverError,
)
from reput_client.remoting import RequestCode


def unknown(message: MessageView) -> None:
    return None


def test_a_message_is_seen_after_its_commit_alone(cluster: FakeCluster, client: Client) -> None:
    with client.transaction_producer("shop", unknown) as producer:
        with producer.transaction(Message("orders", b"book", tags="paid")) as transaction:
            assert not cluster.messages("orders")
            assert transaction.id == transaction.result.msg_id
            assert not transaction.is_over

    (stored,) = cluster.messages("orders")
    assert (stored.body, stored.tags, stored.properties["PGROUP"]) == (b"book", "paid", "shop")
    assert transaction.is_over


def test_a_block_that_raises_rolls_back(cluster: FakeCluster, client: Client) -> None:
    with client.transaction_producer("shop", unknown) as producer:
        with pytest.raises(KeyError), producer.transaction(Message("orders", b"book")):
            raise KeyError
        assert not cluster.messages("orders")
        assert not cluster.broker.halves


def test_a_transaction_ends_once(cluster: FakeCluster, client: Client) -> None:
    with client.transaction_producer("shop", unknown) as producer:
        with producer.transaction(Message("orders", b"book")) as transaction:
            transaction.roll_back()
            with pytest.raises(TransactionOverError, match="rollback"):
                transaction.commit()

    assert not cluster.messages("orders")


def test_a_delay_is_left_out(cluster: FakeCluster, client: Client) -> None:
    message = Message("orders", b"book", properties={"DELAY": "3", "a": "b"})
    with client.transaction_producer("shop", unknown) as producer, producer.transaction(message):
        pass

    (stored,) = cluster.messages("orders")
    assert "DELAY" not in stored.properties
    assert stored.properties["a"] == "b"


def test_a_broker_that_lost_the_message_is_an_error(cluster: FakeCluster, client: Client) -> None:
    with client.transaction_producer("shop", unknown) as producer:
        transaction = producer.transaction(Message("orders", b"book"))
        cluster.broker.halves.clear()
        with pytest.raises(BrokerError, match="prepared transaction message"):
            transaction.commit()


def test_a_broker_that_cannot_be_told_asks_later(cluster: FakeCluster, client: Client) -> None:
    asked, told = [], threading.Event()

    def check(message: MessageView) -> bool:
        asked.append((message.topic, message.body))
        told.set()
        return True

    cluster.broker.faults.append(Fault(RequestCode.END_TRANSACTION, 1, drops=True))
    with client.transaction_producer("shop", check) as producer:
        with producer.transaction(Message("orders", b"book")):
            pass  # leaving it is no error: its work is done
        assert not cluster.messages("orders")
        _come_back(cluster, client)
        cluster.do(cluster.broker.check)
        cluster.until(lambda: cluster.messages("orders"))

    assert asked == [("orders", b"book")]


def _come_back(cluster: FakeCluster, client: Client) -> None:
    """Have the client connect again, and so be known again."""
    with client.producer("other") as producer:
        producer.send(Message("others", b"x"))
        cluster.until(lambda: cluster.broker.producers.get("shop"))


@pytest.mark.parametrize(("found", "outcome"), [(True, 8), (False, 12), (None, 0)])
def test_what_the_check_returns_is_told(
    cluster: FakeCluster, client: Client, found: bool | None, outcome: int
) -> None:
    with client.transaction_producer("shop", lambda message: found) as producer:
        half = producer.transaction(Message("orders", b"book"))
        cluster.do(cluster.broker.check)
        cluster.until(lambda: cluster.broker.ended)

    (ended,) = cluster.broker.ended
    assert ended.commit_or_rollback == outcome
    assert ended.from_transaction_check
    assert ended.msg_id == ended.transaction_id == half.id


def test_a_check_that_raises_leaves_the_question_open(
    cluster: FakeCluster, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with client.transaction_producer("shop", _raise) as producer:
        producer.transaction(Message("orders", b"book"))
        cluster.do(cluster.broker.check)
        cluster.until(lambda: cluster.broker.ended)

    assert cluster.broker.ended[0].commit_or_rollback == 0
    assert "check of a transaction failed" in caplog.text


def _raise(message: MessageView) -> bool:
    raise KeyError(message)


def test_a_message_stored_unsafely_is_rolled_back(
    cluster: FakeCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    import attrs

    store: Callable[..., object] = cluster.broker._send

    async def send(peer: object, command: object) -> object:
        return attrs.evolve(await store(peer, command), code=12)  # type: ignore[misc, type-var]

    monkeypatch.setattr(cluster.broker, "_send", send)
    with client.transaction_producer("shop", unknown) as producer:
        with pytest.raises(SendError, match="FLUSH_SLAVE_TIMEOUT, so it was rolled back"):
            producer.transaction(Message("orders", b"book"))

    assert not cluster.broker.halves


def test_one_producer_of_a_client_answers_for_a_group(client: Client) -> None:
    with client.transaction_producer("shop", unknown):
        with pytest.raises(GroupTakenError, match="'shop'"):
            client.transaction_producer("shop", lambda message: True)
    client.transaction_producer("shop", lambda message: True).close()
