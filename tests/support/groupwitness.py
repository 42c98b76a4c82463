"""Witnesses of groups at a server: transactions, messages that fail, and members that come and go.

    python groupwitness.py halves NAME NAME_SERVER
    python groupwitness.py failing NAME NAME_SERVER
    python groupwitness.py dead NAME NAME_SERVER
    python groupwitness.py storm NAME NAME_SERVER

Not a test module. Notes go to stdout, a line each and at once:

* ``half NAME NUMBER``: the server has acknowledged half message NUMBER,
* ``tried NAME NUMBER``: the send of a half message has ended without an answer,
* ``quiet NAME``: no more half messages follow, but checks are answered until the input ends,
* ``got NAME BODY QUEUE OFFSET TIMES``: a consumer has received a message that has failed TIMES,
* ``dead NAME BODY``: a message of the dead letters was received,
* ``joined NAME COUNT``: a process has opened its COUNTth member,
* ``ended NAME``: nothing more comes.

An even number is the number of a transaction that is carried out, an odd one of one that is not;
every third number is left to the server's check.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

from brokerwitness import TOPIC, say

HALVES_GROUP = "halves"
FAILING_GROUP = "failing"
STORM_GROUP = "storm"
MAX_RECONSUME_TIMES = 2
_QUICK = {"connect_timeout": 1, "retry_interval": 0.2, "route_interval": 1}
_PAUSE_SECONDS = 0.05


def is_failing(number: int) -> bool:
    """Whether the consumer of `fail` fails a message, each time that it comes."""
    return number % 3 == 0


def is_left_to_check(number: int) -> bool:
    """Whether `prepare` leaves it to the server to ask what became of a transaction."""
    return number % 3 == 0


def number_of(body: bytes) -> int:
    """The number in a body of any witness."""
    return int(body.rpartition(b"-")[2])


def prepare(name: str, names: str, quiet: threading.Event, ended: threading.Event) -> None:
    """Send half messages, each once; commit, roll back, or leave them to the check."""
    from reput import Message
    from reput_client import Client, ClientError

    def check(message: Any) -> bool:
        return number_of(message.body) % 2 == 0

    options = {**_QUICK, "heartbeat_interval": 0.5, "retries": 0}
    with Client(names, **options) as client:
        with client.transaction_producer(HALVES_GROUP, check) as producer:
            number = 0
            while not quiet.is_set():
                try:
                    transaction = producer.transaction(Message(TOPIC, b"%d" % number))
                    say("half", name, number)
                    if not is_left_to_check(number):
                        (transaction.roll_back if number % 2 else transaction.commit)()
                except ClientError:
                    say("tried", name, number)
                    quiet.wait(_PAUSE_SECONDS)
                number += 1
            say("quiet", name)
            ended.wait()


def fail(name: str, names: str, quiet: threading.Event, ended: threading.Event) -> None:
    """Receive messages; every third one fails whenever it comes."""
    from reput_client import Client

    with Client(names, **_QUICK, heartbeat_interval=1, rebalance_interval=1) as client:
        options: dict[str, Any] = {"max_reconsume_times": MAX_RECONSUME_TIMES}
        with client.consumer(FAILING_GROUP, TOPIC, start="earliest", name=name, **options) as found:
            while not ended.is_set():
                message = found.next(0.2)
                if message is None:
                    continue
                receive(name, message)
                if is_failing(number_of(message.body)):
                    message.retry(level=1)


def watch_dead(name: str, names: str, quiet: threading.Event, ended: threading.Event) -> None:
    """Receive the dead letters of `fail`."""
    from reput_client import Client

    topic = f"%DLQ%{FAILING_GROUP}"
    with Client(names, **_QUICK, heartbeat_interval=1, rebalance_interval=1) as client:
        with client.consumer("undertakers", topic, start="earliest", name=name) as consumer:
            while not ended.is_set():
                message = consumer.next(0.2)
                if message is not None:
                    say("dead", name, message.body.decode())


def storm(name: str, names: str, quiet: threading.Event, ended: threading.Event) -> None:
    """Have two members at a time of an ordered group, each for a few messages only."""
    from reput_client import Client

    joined = 0
    lock = threading.Lock()

    def come_and_go(chance: random.Random) -> None:
        nonlocal joined
        while not ended.is_set():
            options = {"ordered": True, "start": "earliest"}
            with client.consumer(STORM_GROUP, TOPIC, **options) as consumer:
                with lock:
                    joined += 1
                    say("joined", name, joined)
                # Once quiet is asked for, the members stay, so that the group reaches the end.
                left = chance.randrange(1, 40)
                until = time.monotonic() + chance.uniform(0.1, 1.0)
                while not ended.is_set():
                    if not quiet.is_set() and (left == 0 or time.monotonic() > until):
                        break
                    message = consumer.next(0.05)
                    if message is not None:
                        receive(name, message)
                        left -= left > 0

    options = {**_QUICK, "heartbeat_interval": 0.5, "rebalance_interval": 0.2}
    with Client(names, **options) as client:
        threads = [
            threading.Thread(target=come_and_go, args=(random.Random(f"{name}{number}"),))
            for number in range(2)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


def receive(name: str, message: Any) -> None:
    """Note a message that was received."""
    place = message.queue.queue_id, message.queue_offset
    say("got", name, message.body.decode(), *place, message.reconsume_times)


def main(kind: str, name: str, address: str) -> None:
    """Witness until the input ends; a line in it asks to be quiet."""
    quiet, ended = threading.Event(), threading.Event()

    def wait() -> None:
        sys.stdin.readline()
        quiet.set()
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    kinds = {"halves": prepare, "failing": fail, "dead": watch_dead, "storm": storm}
    kinds[kind](name, address, quiet, ended)
    say("ended", name)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
