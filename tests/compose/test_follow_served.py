"""``reput follow --serve``: consumers read a replica that goes on growing, and change nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
from fakemaster import FakeLog, FakeMaster
from masterlogs import log_of

from reput import Message
from reput_client import BrokerError, Client, ClientError

WAIT = 60


@contextmanager
def serving(path, master, *options):
    """A follower that serves its store; its first line of JSON once it has all."""
    command = [sys.executable, "-m", "reput", "follow", str(path), "--from", master.address]
    command += ["--serve", "127.0.0.1:0", "--serve-namesrv", "127.0.0.1:0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = map(json.loads, process.stdout)
            yield next(line for line in lines if line["dispatched_offset"] == master.log.end)
        finally:
            process.terminate()
            rest = process.stdout.read()
    assert (process.wait(), json.loads(rest.splitlines()[-1])["state"]) == (0, "stopped")


@pytest.mark.costly
def test_a_consumer_reads_what_comes_while_it_waits(tmp_path):
    data = log_of(tmp_path / "log", 300)
    cut = data.index(b"\xda\xa3\x20\xa7", len(data) // 2) - 4  # where a record begins
    with (
        FakeMaster(FakeLog(data[:cut])) as master,
        serving(tmp_path / "store", master, "--plugins", "consumequeue") as facts,
        Client(facts["name_server"]) as client,
    ):
        consumer = client.consumer("billing", "topic-0", start="earliest")
        messages = iter(consumer)
        found = {int(next(messages).body.split()[0])}
        master.append(data[cut:])
        while len(found) < 100:
            found.add(int(next(messages).body.split()[0]))
        with pytest.raises(BrokerError, match="read-only"):  # offsets, which it commits at the end
            consumer.close()

    assert found == set(range(0, 300, 3))
    assert facts["broker"].startswith("127.0.0.1:")


@pytest.mark.costly
def test_nothing_is_sent_to_a_replica(tmp_path):
    data = log_of(tmp_path / "log", 30)
    with (
        FakeMaster(FakeLog(data)) as master,
        serving(tmp_path / "store", master, "--plugins", "consumequeue") as facts,
        Client(facts["name_server"]) as client,
        client.producer("shop") as producer,
        pytest.raises(ClientError),
    ):
        producer.send(Message("topic-0", b"no"), timeout=1.0)
