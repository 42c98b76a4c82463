"""A server that is killed while a thousand messages are out to clients of release 5.

Each life of the server ends by SIGKILL at a random place; then it is started again on the same
store. ``REPUT_KILLS`` is the number of kills, 200 with ``REPUT_SOAK=1``.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter

import grpc
import pytest
from grpcclient import GrpcClient
from serverlives import kill_count

import reput
from reput_consumer import ConsumerPlugin, GroupSettings, TopicSettings
from reput_server.grpc.messagetypes import m

PLUGINS = {"consumequeue", "consumer", "schedule"}
CONFIG = {"consumer": {"save_interval_ms": 50}}
OUT = 1_000
QUEUES = 4
OK = 20000
LONG = m.Duration(seconds=600)
"""No message comes back before a server is killed, however slow the machine is."""


class Story:
    """What a producer and a consumer know, which outlive the server."""

    def __init__(self, store, chance):
        self.store, self.chance = store, chance
        self.stored = set()
        """Bodies whose sends were answered."""
        self.tried = set()
        """Bodies that were sent, answered or not."""
        self.acked = set()
        """Bodies whose acknowledgements were answered."""
        self.unsure = set()
        """Bodies whose acknowledgements were not answered."""
        self.refused = Counter()
        self.dead_at = {}
        """Floors on disk at the last kill, by queue id."""
        self.seen_attempts = Counter()
        self.next_in_order = 0
        """The first message in order that is not acknowledged."""
        self.sent_in_order = 0
        self.floor_in_order = 0

    # ------------------------------------------------------------------ one life

    def send(self, client, count):
        bodies = [f"m{len(self.tried) + each}" for each in range(count)]
        for first in range(0, count, 50):
            some = bodies[first : first + 50]
            self.tried.update(some)
            answer = client.send("orders", *some)
            assert answer.status.code == OK
            self.stored.update(some)

    def send_in_order(self, client, count):
        for _ in range(count):
            body, self.sent_in_order = str(self.sent_in_order), self.sent_in_order + 1
            answer = client.send("fifo", body, message_group="g")
            assert answer.status.code == OK

    def take(self, client, most):
        """Receive until so many messages are out, or none comes."""
        out = []
        while len(out) < most:
            code, found = client.receive("g", "orders", invisible_duration=LONG)
            if code != OK:
                break
            for each in found:
                self.check(each)
            out += found
        return out

    def check(self, message):
        """Check what came: it was sent, it is not below a floor, and its attempts are right."""
        body, system = message.body.decode(), message.system_properties
        assert body in self.tried
        assert 1 <= system.delivery_attempt <= 1 + self.refused[body]
        self.seen_attempts[system.delivery_attempt] += 1
        if system.delivery_attempt == 1:
            assert system.queue_offset >= self.dead_at.get(system.queue_id, 0)

    def acknowledge(self, client, out, part, *, in_order):
        if not in_order:
            self.chance.shuffle(out)
        for message in out[: int(len(out) * part)]:
            body = message.body.decode()
            if self.chance.random() < 0.05:
                self.refused[body] += 1
                client.change("g", "orders", message, 0)
            else:
                self.unsure.add(body)
                assert client.ack("g", "orders", message).status.code == OK
                self.unsure.discard(body)
                self.acked.add(body)

    def take_in_order(self, client):
        """Receive one batch in order, and acknowledge it."""
        code, found = client.receive("f", "fifo", batch_size=8, invisible_duration=LONG)
        if code != OK:
            return
        numbers = [int(each.body) for each in found]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert self.floor_in_order <= numbers[0] <= self.next_in_order
        for message in found:
            assert client.ack("f", "fifo", message).status.code == OK
            self.next_in_order = max(self.next_in_order, int(message.body) + 1)

    def read_floors(self):
        """Note which floors are on disk; the server does not run."""
        with reput.open(self.store, mode="r") as store:
            offsets = store.plugin(ConsumerPlugin).offsets()
        self.dead_at = {
            queue_id: offset
            for (topic, queue_id), offset in offsets.get("g", {}).items()
            if topic == "orders"
        }
        self.floor_in_order = offsets.get("f", {}).get(("fifo", 0), 0)


@contextlib.contextmanager
def life(store):
    """Serve a store for the time of a block, at whose end the server is killed."""
    options = ["--listen", "127.0.0.1:0", "--namesrv", "none", "--grpc", "127.0.0.1:0"]
    command = [sys.executable, "-m", "reput", "serve", str(store), "--json", *options]
    command += ["--grpc-from-beginning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        line = process.stdout.readline()
        assert line, process.communicate()[1].decode()
        try:
            with GrpcClient(json.loads(line)["grpc"], "one") as client:
                client.produce("orders", "fifo")
                yield client, process
        finally:
            process.kill()
            said = process.communicate()[1].decode()
    assert "Traceback" not in said


def until_saved(store):
    """Wait until the server has saved its offsets once more."""
    file = store / "config" / "consumerOffset.json"
    began, deadline = time.time(), time.monotonic() + 60
    while not file.exists() or file.stat().st_mtime < began:
        assert time.monotonic() < deadline, "no offsets are saved"
        time.sleep(0.01)  # the server is another process; only its file shows that it has saved


def prepare(store):
    with reput.open(store, plugins=PLUGINS, config=CONFIG) as opened:
        plugin = opened.plugin(ConsumerPlugin)
        for topic, kind, count in (("orders", "NORMAL", QUEUES), ("fifo", "FIFO", 1)):
            attributes = {"message.type": kind}
            queues = {"read_queue_nums": count, "write_queue_nums": count}
            plugin.topics.put(TopicSettings(topic=topic, attributes=attributes, **queues))
        plugin.subscription_groups.put(GroupSettings(group="g"))
        plugin.subscription_groups.put(GroupSettings(group="f", consume_message_orderly=True))


@pytest.mark.proof
@pytest.mark.costly
def test_messages_that_are_out_survive_kills_of_the_server(tmp_path):
    store, chance = tmp_path / "store", random.Random(30)
    prepare(store)
    story, most_out, floors = Story(store, chance), 0, 0
    kills = kill_count(2)

    for number in range(kills):
        with life(store) as (client, process):
            story.send(client, 1_200 if number == 0 else chance.randrange(50, 200))
            story.send_in_order(client, chance.randrange(1, 20))
            if len(story.stored) - len(story.acked) < OUT + 100:
                story.send(client, OUT)
            out = story.take(client, OUT)
            most_out = max(most_out, len(out))
            story.take_in_order(client)
            in_order = number % 2 == 0
            story.acknowledge(client, out, chance.choice((0.1, 0.5)), in_order=in_order)
            if in_order:
                until_saved(store)
            story.take_in_order(client)
            rest = out[len(out) // 2 :]
            # With the rest out, in the middle of acknowledgements or of the sends behind them.
            timer = threading.Timer(chance.uniform(0, 0.3), process.kill)
            timer.start()
            with contextlib.suppress(grpc.RpcError):
                story.acknowledge(client, rest, 0.5, in_order=False)
                while True:
                    story.send(client, 1)
            timer.join()
        before = sum(story.dead_at.values())
        story.read_floors()
        floors += sum(story.dead_at.values()) > before

    with life(store) as (client, _):
        while story.next_in_order < story.sent_in_order:
            story.take_in_order(client)
        got = set()
        while not story.stored <= got | story.acked | story.unsure:
            for message in story.take(client, 100):
                got.add(message.body.decode())
                client.ack("g", "orders", message)

    assert most_out >= OUT
    assert floors
    assert set(story.seen_attempts) >= {1, 2}
