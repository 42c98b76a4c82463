"""A server is given frames that are nearly right: it answers or closes, and all else goes on.

3,000 frames in the ordinary form, 100,000 with ``REPUT_SOAK=1``; ``REPUT_FUZZ_FRAMES`` is another
number, and ``REPUT_FUZZ_SEED`` gives other ones. The store that was served must then be sound, and
nothing may have gone unforeseen.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys

import leakserver
import pytest
import wiremutants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wirepeer import WirePeer, message

from reput_client.remoting import QueueOf, RequestCode, ResponseCode
from reput_testing.casebudget import is_soak, part_of_count

pytestmark = pytest.mark.shows("arbitrary-bytes")

FRAMES = int(
    os.environ.get("REPUT_FUZZ_FRAMES", 100_000 if is_soak() else max(part_of_count(3_000), 300))
)
DRAWN = 500
"""Frames that Hypothesis draws, which makes a failure small; the others come by a seed."""
AT_ONCE = 5
"""Frames of one connection; those behind a malformed one are not read any more."""
MEMORY = 400 << 20
QUEUE = QueueOf(topic="sound", queue_id=0)


class Server:
    """A process that serves a store of its own, and a sound client that always is there."""

    def __init__(self, path):
        self.path = path / "store"
        self.log = path / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, leakserver.__file__, str(self.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.address = "127.0.0.1", int(self.process.stdout.readline())
        self.sound = WirePeer(self.address, 60)
        self.stored = 0

    def try_out(self, data):
        """Send bytes on a connection of their own, and read what comes to its end."""
        with WirePeer(self.address, 60) as peer:
            try:
                peer.socket.sendall(data)
                peer.socket.shutdown(socket.SHUT_WR)
                while peer.socket.recv(1 << 16):
                    pass
            except TimeoutError:
                raise
            except OSError:
                pass  # the server has closed the connection
        answer = self.sound.ask(
            RequestCode.SEND_MESSAGE_V2, message("sound"), body=b"%d" % self.stored
        )
        assert answer.code == ResponseCode.SUCCESS, answer
        assert int(answer.fields["queueOffset"]) == self.stored
        self.stored += 1

    def look(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.sound.socket.close()
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    found = Server(tmp_path_factory.mktemp("fuzzed"))
    yield found
    # The test that closes both may not have been selected.
    found.sound.socket.close()
    if found.process.poll() is None:
        found.process.kill()
        found.process.communicate()


@settings(
    max_examples=DRAWN // AT_ONCE,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(st.randoms(use_true_random=False))
def test_any_frame_is_answered_or_closes_its_connection_alone(server, chance):
    server.try_out(b"".join(wiremutants.frames(chance) for _ in range(AT_ONCE)))


@pytest.mark.proof
@pytest.mark.costly
def test_many_frames_leave_the_server_and_its_store_as_they_were(server):
    chance = random.Random(int(os.environ.get("REPUT_FUZZ_SEED", "17")))
    for _ in range((FRAMES - DRAWN) // AT_ONCE):
        server.try_out(b"".join(wiremutants.frames(chance) for _ in range(AT_ONCE)))

    memory = server.look()["memory"]
    server.close()

    assert server.process.returncode == 0
    assert memory < MEMORY
    log = server.log.read_text(errors="replace")
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3_000]
    verify = [sys.executable, "-m", "reput", "verify", str(server.path), "--json"]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=600, check=False)
    kinds = {each["kind"] for each in json.loads(done.stdout)["findings"]}
    # A group may commit any offset, to RocketMQ's brokers, too, and to read on there is its own.
    assert kinds <= {"config.offset-beyond"}, done.stdout + done.stderr
