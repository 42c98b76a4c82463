"""A broker that cuts, is busy or loses an answer, once for each kind of request of a client's life.

All of them with ``REPUT_SOAK=1``, else one fault for each kind.
"""

from __future__ import annotations

import contextlib
import itertools

import pytest

from reput import Message
from reput_client import Client, ClientError, Producer, SendError
from reput_client.remoting import RequestCode
from reput_server import LocalBroker
from reput_testing.casebudget import is_soak

_COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
KINDS = (
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.HEART_BEAT,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.PULL_MESSAGE,
    RequestCode.LOCK_BATCH_MQ,
    _COMMIT,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.UNREGISTER_CLIENT,
)
FAULTS = ("cut_at", "lose_answers", "answer_busy")
QUICK = {
    "request_timeout": 1,
    "send_timeout": 20,
    "retries": 5,
    "retry_interval": 0.05,
    "rebalance_interval": 0.2,
    "heartbeat_interval": 0.2,
}
COUNT = 12


def cases() -> list[tuple[RequestCode, str]]:
    """Which fault befalls which kind of request.

    A pull whose answer is lost is waited for as long as a broker may hold it, in a soak alone.
    """
    if is_soak():
        return list(itertools.product(KINDS, FAULTS))
    found = list(zip(KINDS, itertools.cycle(FAULTS), strict=False))
    assert (RequestCode.PULL_MESSAGE, "lose_answers") not in found
    return found


@pytest.mark.parametrize(("code", "fault"), cases())
def test_a_fault_of_any_request_costs_a_client_no_message(code: RequestCode, fault: str) -> None:
    with LocalBroker() as broker:
        getattr(broker.faults, fault)(1 if code == _COMMIT else 2, {code})
        with Client(broker.name_server, **QUICK) as client, client.producer("shop") as producer:
            send(producer, b"0")
            options = {"start": "earliest", "ordered": code in _OF_ORDERED}
            with client.consumer("billing", "orders", **options) as consumer:
                for number in range(1, COUNT):
                    producer.send(Message("orders", b"%d" % number))
                seen: dict[tuple[int, int], bytes] = {}
                # All that is stored: what was sent twice may come last.
                while len(seen) < len(broker.messages("orders")):
                    message = consumer.next(60)
                    assert message is not None, (code, fault, sorted(seen.values()))
                    seen[message.queue.queue_id, message.queue_offset] = message.body
                with contextlib.suppress(ClientError):
                    consumer.commit()  # tells that nobody has answered; the next one is another try

        bodies = [each.body for each in broker.messages("orders")]
        assert sorted(bodies) == sorted(seen.values())
        assert set(bodies) == {b"%d" % number for number in range(COUNT)}
        # Twice is only what nobody had answered: a cut takes answers of other requests along.
        assert len(bodies) <= COUNT + (0 if fault == "answer_busy" else 2)
        broker.wait_for("billing", seconds=20)


_OF_ORDERED = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)


def send(producer: Producer, body: bytes) -> None:
    """Send a message until it is acknowledged: without any answer, that is for who sends to say."""
    for _ in range(20):
        try:
            producer.send(Message("orders", body), timeout=1)
        except SendError:
            continue
        return
    raise AssertionError("it is never acknowledged")
