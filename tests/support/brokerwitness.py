"""Witnesses of a broker that is killed: processes that note what it has told them.

    python brokerwitness.py producer NAME BROKER [SECONDS]
    python brokerwitness.py client NAME NAME_SERVER
    python brokerwitness.py consumer NAME NAME_SERVER

Not a test module. Notes go to stdout, a line each and at once, in one write that nothing tears:

* ``acked NAME NUMBER QUEUE OFFSET`` when the broker has acknowledged message NUMBER,
* ``tried NAME NUMBER`` when a send has ended without an answer, and is made again,
* ``refused NAME NUMBER CODE`` when the broker has answered that it did not store it,
* ``got NAME BODY QUEUE OFFSET`` when a consumer has received a message,
* ``ended NAME`` when nothing more comes.

A ``producer`` speaks to the broker itself and so knows each try, and pauses for SECONDS after each
message; a ``client`` is a producer of
`reput_client`, which tries again by itself. All go on while the broker is away, until their input
ends.
"""

from __future__ import annotations

import os
import sys
import threading

TOPIC = "orders"
GROUP = "witnesses"
QUEUES = 4
_PAUSE_SECONDS = 0.05


def say(*words: object) -> None:
    """Print a line."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def address_of(text: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def produce(name: str, broker: str, ended: threading.Event, pause: float = 0.0) -> None:
    """Send numbers, each until it is acknowledged."""
    from wirepeer import WirePeer, message

    from reput_client.remoting import RequestCode

    peer: WirePeer | None = None
    number = 0
    while not ended.is_set():
        queue_id = number % QUEUES
        header = message(TOPIC, queue_id, properties=f"UNIQ_KEY\x01{name}{number}\x02")
        try:
            if peer is None:
                peer = WirePeer(address_of(broker))
            answer = peer.ask(
                RequestCode.SEND_MESSAGE_V2, header, body=b"%s-%d" % (name.encode(), number)
            )
        except OSError:
            if peer is not None:
                say("tried", name, number)
                peer.socket.close()
            peer = None
            ended.wait(_PAUSE_SECONDS)
            continue
        if answer.code == 0:
            say("acked", name, number, queue_id, answer.fields["queueOffset"])
            number += 1
            ended.wait(pause)
        else:
            say("refused", name, number, answer.code)
            ended.wait(_PAUSE_SECONDS)


def produce_by_client(name: str, name_server: str, ended: threading.Event) -> None:
    """Send numbers as an application does, each until it is acknowledged."""
    from reput import Message
    from reput_client import Client, ClientError

    number = 0
    with Client(name_server, route_interval=1, connect_timeout=1) as client:
        producer = client.producer("witnesses-that-send")
        while not ended.is_set():
            try:
                result = producer.send(Message(TOPIC, b"%s-%d" % (name.encode(), number)))
            except ClientError:
                say("tried", name, number)
                ended.wait(_PAUSE_SECONDS)
                continue
            say("acked", name, number, result.queue.queue_id, result.queue_offset)
            number += 1


def consume(name: str, name_server: str, ended: threading.Event) -> None:
    """Receive what there is, as a member of a group."""
    from reput_client import Client

    options = {"route_interval": 1, "rebalance_interval": 1, "heartbeat_interval": 1}
    with Client(name_server, retry_interval=0.2, connect_timeout=1, **options) as client:
        consumer = client.consumer(GROUP, TOPIC, start="earliest", name=name)
        with consumer:
            while not ended.is_set():
                message = consumer.next(0.2)
                if message is not None:
                    body = message.body.decode()
                    say("got", name, body, message.queue.queue_id, message.queue_offset)


def main(kind: str, name: str, address: str, *options: str) -> None:
    """Witness until the input ends."""
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    witness = {"producer": produce, "client": produce_by_client, "consumer": consume}[kind]
    witness(name, address, ended, *map(float, options))
    say("ended", name)


if __name__ == "__main__":
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))
    main(*sys.argv[1:])
