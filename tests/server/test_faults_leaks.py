"""What clients do in an ordinary day, again and again: nothing of it may stay in the memory.

With ``REPUT_SOAK=1`` it takes ten minutes; its figures are printed each minute.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import attrs
import leakserver
import pytest
import wirescript
from wirepeer import WirePeer, message

from reput_client.remoting import (
    Command,
    CreateTopic,
    EndTransaction,
    GroupOf,
    Heartbeat,
    RequestCode,
    ResponseCode,
    SendAnswer,
    Unregister,
    UpdateGroupOffset,
    encode_frame,
)
from reput_testing.casebudget import is_soak

SEND = RequestCode.SEND_MESSAGE_V2
COMMIT, ROLLBACK = 8, 12
GROUPS, TOPICS = 20, 20  # more would stay, as they are in files
WARM_ROUNDS, ROUNDS = 40, 50
LOOKS = 4
MINUTES = 10
BOUND = 8 << 20
BOUND_OF_REST = 1 << 20


@attrs.define(eq=False)
class Watched:
    """A process that serves, and can be asked what it has in memory."""

    process: subprocess.Popen[str]
    address: tuple[str, int]

    def look(self) -> dict:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@contextmanager
def watched(path) -> Iterator[Watched]:
    with subprocess.Popen(
        [sys.executable, leakserver.__file__, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Watched(process, ("127.0.0.1", int(process.stdout.readline())))
        process.stdin.close()


# --------------------------------------------------------------------------- one round


def live(address, number):
    """Everything that clients do, once: they come, and half of them go without a word."""
    with ExitStack() as stack:
        producer, consumer, other = (stack.enter_context(WirePeer(address, 60)) for _ in range(3))
        group, topic = f"g{number % GROUPS}", f"t{number % TOPICS}"
        beat(producer, f"producer-{number}", group)
        beat(consumer, f"consumer-{number}", group)
        beat(other, f"other-{number}", group)
        done(producer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, created(topic)))
        for each in range(10):
            done(producer.ask(SEND, message("orders", each % 4), body=bytes(100)))
        done(producer.ask(SEND, message(topic, properties=f"KEYS\x01k{number}\x02"), body=b"x"))
        end_transaction(producer, number)
        reply(producer, other, number)
        work(consumer, group)
        if number % 2:
            gone = Unregister(client_id=f"consumer-{number}", consumer_group=group)
            done(consumer.ask(RequestCode.UNREGISTER_CLIENT, gone))


def done(answer):
    assert answer.code == ResponseCode.SUCCESS, answer
    return answer


def beat(peer, client_id, group):
    body = Heartbeat.decode(wirescript.heartbeat(client_id, group=group, expression="a || b"))
    done(peer.ask(RequestCode.HEART_BEAT, body=body.encode()))


def created(topic):
    return CreateTopic(topic=topic, read_queue_nums=2, write_queue_nums=2, perm=6)


def end_transaction(peer, number):
    half = f"TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01U{number}\x02"
    # A half message of long ago would be given up at the next look.
    header = attrs.evolve(message("paid", properties=half), born_timestamp=now())
    answer = done(peer.ask(SEND, header, body=b"half"))
    stored = answer.header(SendAnswer)
    asked = EndTransaction(
        producer_group="p",
        tran_state_table_offset=stored.queue_offset,
        commit_log_offset=int(stored.msg_id[-16:], 16),
        commit_or_rollback=COMMIT if number % 2 else ROLLBACK,
    )
    done(peer.ask(RequestCode.END_TRANSACTION, asked))


def now():
    return time.time_ns() // 1_000_000


def reply(asker, replier, number):
    wanted = message("orders", properties=f"REPLY_TO_CLIENT\x01producer-{number}\x02")
    sent = replier.send(Command.request(RequestCode.SEND_REPLY_MESSAGE_V2, wanted, body=b"4"))
    pushed = next_of(asker, lambda each: each.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    asker.socket.sendall(encode_frame(pushed.answer(ResponseCode.SUCCESS)))
    done(next_of(replier, lambda each: each.is_response and each.opaque == sent.opaque))


def next_of(peer, wanted):
    while not wanted(command := peer.receive()):
        pass
    return command


def work(peer, group):
    """Pull, commit, fail a message; one pull still waits when the connection ends."""
    found = peer.ask(RequestCode.PULL_MESSAGE, wirescript.pull(consumer_group=group))
    done(found)
    how_far = UpdateGroupOffset(consumer_group=group, topic="orders", queue_id=0, commit_offset=1)
    done(peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, how_far))
    done(peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GroupOf(consumer_group=group)))
    waiting = wirescript.pull(consumer_group=group, topic="none-comes", hold_ms=20_000)
    done(peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, created("none-comes")))
    peer.send(Command.request(RequestCode.PULL_MESSAGE, waiting))


# --------------------------------------------------------------------------- what stays


@pytest.mark.slow
def test_nothing_of_clients_stays_in_the_memory(tmp_path):
    numbers, looks = itertools.count(), []
    with watched(tmp_path / "store") as server:
        live_often(server.address, numbers, WARM_ROUNDS)
        server.look()  # a look leaves room behind that the next ones use
        for _ in range(LOOKS):
            looks.append(server.look())
            live_often(server.address, numbers, ROUNDS)

    # What is under way at a look comes and goes. Two things come once, at a time of the clock: the
    # counts of pulls, with the first slice of ten seconds, and the last state of a file of
    # offsets. What stays grows from each look to the next.
    counts = {
        name: [each["objects"].get(name, 0) for each in looks] for name in looks[-1]["objects"]
    }
    grown = {
        name: found
        for name, found in counts.items()
        if min(after - before for before, after in itertools.pairwise(found)) >= ROUNDS // 2
    }
    assert grown == {}
    assert looks[-1]["memory"] - looks[0]["memory"] < BOUND


def live_often(address, numbers, count):
    for number in itertools.islice(numbers, count):
        live(address, number)


@pytest.mark.proof
@pytest.mark.skipif(not is_soak(), reason="takes ten minutes: REPUT_SOAK=1")
def test_memory_is_flat_for_ten_minutes(tmp_path):
    numbers, found = itertools.count(), []
    with watched(tmp_path / "store") as server:
        began = time.monotonic()
        for minute in range(1, MINUTES + 1):
            while time.monotonic() < began + minute * 60:
                live(server.address, next(numbers))
            found.append(server.look())
            print(minute, next(numbers), "rounds", found[-1]["memory"] >> 10, "KiB")  # noqa: T201
        for name, count in list(found[-1]["objects"].items())[:25]:
            print(f"{name}: {[each['objects'].get(name) for each in found]}: {count}")  # noqa: T201

    # Caches fill in the first minutes; from then on there is nothing that may grow.
    assert found[-1]["memory"] - found[MINUTES // 2]["memory"] < BOUND_OF_REST
