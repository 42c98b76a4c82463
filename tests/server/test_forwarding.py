"""What an operator asks a client reaches it over its own connection, and so does the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager

import attrs
import pytest
from wirepeer import message

from reput_client.remoting import (
    Command,
    ConsumeDirectly,
    ConsumerData,
    ConsumerStatus,
    Heartbeat,
    QueueName,
    RequestCode,
    ResponseCode,
    RunningInfo,
    Subscription,
    encode_frame,
    parse_body,
    write_body,
)
from reput_server.broker.admin.forwardhandlers import ForwardHandlers

RUNNING = RunningInfo(consumer_group="billing", client_id="me", jstack_enable=True)


def join(peer, client_id="me", version=479):
    wanted = Subscription(topic="orders", expression="*", version=5)
    data = ConsumerData(group="billing", subscriptions=(wanted,))
    heartbeat = Heartbeat(client_id=client_id, consumers=(data,))
    sent = Command.request(RequestCode.HEART_BEAT, body=heartbeat.encode())
    peer.send(attrs.evolve(sent, version=version))
    while not peer.receive().is_response:
        pass


@contextmanager
def answering(peer, codes, answer: Callable[[Command], Command | None]):
    """Answer the first of these requests, on a thread of its own."""
    asked: list[Command] = []

    def work() -> None:
        while (command := peer.receive()).code not in codes or command.is_response:
            pass
        asked.append(command)
        found = answer(command)
        if found is None:
            peer.socket.close()
        else:
            peer.socket.sendall(encode_frame(found))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield asked
    thread.join(20)
    assert not thread.is_alive()


def test_what_a_consumer_says_of_itself_is_passed_on(served):
    client = served.peer()
    join(client)
    secret = {"AccessKey": "k", "Signature": "s"}

    with answering(
        client,
        {RequestCode.GET_CONSUMER_RUNNING_INFO},
        lambda command: command.answer(ResponseCode.SUCCESS, body=b'{"jstack":"x"}'),
    ) as asked:
        found = served.peer().ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING, more=secret)

    assert (found.code, found.body) == (ResponseCode.SUCCESS, b'{"jstack":"x"}')
    assert asked[0].fields == {"consumerGroup": "billing", "clientId": "me", "jstackEnable": "true"}


def test_a_consumer_is_handed_the_stored_message(served):
    client = served.peer()
    join(client)
    sent = served.peer().ask(RequestCode.SEND_MESSAGE_V2, message("orders"), body=b"again")
    served.store.wait_dispatched()
    (stored,) = served.store.read("orders", 0, 0)
    header = ConsumeDirectly(consumer_group="billing", client_id="me", msg_id=sent.fields["msgId"])

    with answering(
        client,
        {RequestCode.CONSUME_MESSAGE_DIRECTLY},
        lambda command: command.answer(ResponseCode.SUCCESS, body=b'{"consumeResult":"CR_LATER"}'),
    ) as asked:
        found = served.peer().ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)

    assert parse_body(found.body, "answer") == {"consumeResult": "CR_LATER"}
    assert asked[0].body == stored.record
    assert asked[0].fields["brokerName"] == "broker-a"


GONE = "invoke consumer <billing> <me> Exception: the peer has gone"


@pytest.mark.parametrize(
    ("answer", "remark"),
    [
        (lambda asked: asked.answer(ResponseCode.SYSTEM_ERROR, remark="not here"), "not here"),
        (lambda asked: None, GONE),
    ],
    ids=["refuses", "goes"],
)
def test_a_consumer_that_refuses_or_goes_meanwhile_is_told(served, answer, remark):
    client = served.peer()
    join(client)

    with answering(client, {RequestCode.GET_CONSUMER_RUNNING_INFO}, answer):
        found = served.peer().ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)

    assert (found.code, found.remark) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_consumer_that_does_not_answer_is_told(served, monkeypatch):
    monkeypatch.setattr(
        "reput_server.broker.admin.forwardhandlers.ForwardHandlers._forward",
        _in_no_time(ForwardHandlers._forward),
    )
    client = served.peer()
    join(client)

    found = served.peer().ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)

    assert found.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert found.remark == "consumer <billing> <me> Timeout: no answer in 0 s"


def _in_no_time(forward):
    return lambda self, *arguments: forward(attrs.evolve(self, seconds=0), *arguments)


@pytest.mark.parametrize(("client_id", "version", "said"), [
    ("other", 479, "The Consumer <billing> <me> not online"),
    ("me", 61, "too low to finish, please upgrade it to V3_1_8_SNAPSHOT"),
])  # fmt: skip
def test_a_consumer_that_cannot_answer_is_told(served, client_id, version, said):
    join(served.peer(), client_id, version)

    found = served.peer().ask(RequestCode.GET_CONSUMER_RUNNING_INFO, RUNNING)

    assert found.code == ResponseCode.SYSTEM_ERROR
    assert said in found.remark


@pytest.mark.parametrize(
    "msg_id", ["", "x", "7F00000100002A9F" + "F" * 16, "7F00000100002A9F0000000000000999"]
)
def test_a_message_that_there_is_not_is_not_handed_out(served, msg_id):
    join(served.peer())
    header = ConsumeDirectly(consumer_group="billing", client_id="me", msg_id=msg_id)

    found = served.peer().ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)

    assert found.code == ResponseCode.SYSTEM_ERROR
    assert found.remark.startswith("can not find message by the id")


# --------------------------------------------------------------------------- status


def status(served, client_addr=None):
    header = ConsumerStatus(topic="orders", group="billing", client_addr=client_addr)
    return served.peer().ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)


def test_clients_tell_how_far_they_are(served):
    client = served.peer()
    join(client)
    table = {QueueName("orders", "broker-a", 0): 7}
    body = write_body({"messageQueueTable": table})

    with answering(
        client,
        {RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT},
        lambda command: command.answer(ResponseCode.SUCCESS, body=body),
    ) as asked:
        found = status(served)

    assert parse_body(found.body, "status") == {"consumerTable": {"me": table}}
    assert asked[0].header(ConsumerStatus).topic == "orders"


@pytest.mark.parametrize(
    ("code", "body"),
    [(0, b"[]"), (0, b"{"), (0, b'{"messageQueueTable":5}'), (1, b""), (0, b'{"x":1}')],
)
def test_a_client_that_tells_nothing_is_left_out(served, code, body):
    client = served.peer()
    join(client)

    with answering(
        client,
        {RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT},
        lambda command: command.answer(code, body=body),
    ):
        found = status(served)

    assert parse_body(found.body, "status") == {"consumerTable": {}}


def test_one_client_or_none_is_asked(served):
    assert status(served).remark == "No Any Consumer online in the consumer group: [billing]"
    join(served.peer())
    assert parse_body(status(served, "other").body, "status") == {"consumerTable": {}}
