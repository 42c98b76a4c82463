"""The lives of a server that is killed again and again, and what witnesses beside it report.

Not a test module. Witnesses are processes of their own (``brokerwitness.py``, ``groupwitness.py``);
each prints its notes line by line, and goes on while the server is away.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter

from freeports import free_ports
from openstores import messages_in

from reput_testing.casebudget import is_soak

SILENCE_SECONDS = 60.0
_SOAK_KILLS = 200


def kill_count(usual):
    """``REPUT_KILLS``, or 200 with ``REPUT_SOAK=1``, or ``usual``."""
    return int(os.environ.get("REPUT_KILLS") or (_SOAK_KILLS if is_soak() else usual))


def free_address():
    """An address that stays free between two lives, with the port for fast requests below it."""
    return f"127.0.0.1:{free_ports(-2)}"


class ServerLives:
    """The lives of a server. A subclass takes the notes of its witnesses in `note`.

    Args:
        store: the store's directory.
        flush: the server's option of that name.
        script: path of the witnesses' program.
    """

    program = ("-m", "reput")
    """What the server's interpreter runs."""

    def __init__(self, store, flush, script):
        self.store = store
        self.flush = flush
        self.script = script
        self.broker, self.names = free_address(), free_address()
        self.ended = set()
        self._witnesses = {}
        self._reads, self._writes = os.pipe()
        self._log = open(f"{store}.log", "wb")  # noqa: SIM115
        self._rest = b""

    def begin(self, kind, name, address=None, *options, script=None):
        """Have one more witness; it speaks to the name server if no address is given."""
        words = [kind, name, address or self.names, *options]
        command = [sys.executable, script or self.script, *words]
        options = {"stdin": subprocess.PIPE, "stdout": self._writes, "stderr": self._log}
        self._witnesses[name] = subprocess.Popen(command, **options)

    def end(self, *names):
        """Hear what these witnesses have still to say, to their end."""
        for name in names:
            self._witnesses[name].stdin.close()
        self.hear(lambda: self.ended.issuperset(names))
        assert [self._witnesses[name].wait(SILENCE_SECONDS) for name in names] == [0] * len(names)

    def tell(self, name, word):
        """Give a witness a line on its standard input."""
        stdin = self._witnesses[name].stdin
        stdin.write(word.encode() + b"\n")
        stdin.flush()

    def stop(self, process):
        """End the server in order."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(SILENCE_SECONDS) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._witnesses.values():
            process.kill()
            process.wait()
        self._log.close()
        os.close(self._reads)
        os.close(self._writes)

    @contextlib.contextmanager
    def life(self):
        """Have a server for the time of a block, at whose end it is killed if it lives."""
        options = ["--listen", self.broker, "--namesrv", self.names, "--flush", self.flush]
        command = [sys.executable, *self.program, "serve", str(self.store), *options, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            line = process.stdout.readline()
            assert line, process.communicate()[1].decode()
            assert json.loads(line)["broker"] == self.broker
            try:
                yield process
            finally:
                process.kill()
                said = process.communicate()[1].decode()
        assert "Traceback" not in said
        assert "error" not in said.lower(), said

    def hear(self, holds):
        """Listen to witnesses until something holds."""
        while not holds():
            assert select.select([self._reads], [], [], SILENCE_SECONDS)[0], "witnesses are silent"
            self._check_witnesses()
            *lines, self._rest = (self._rest + os.read(self._reads, 1 << 16)).split(b"\n")
            for line in lines:
                word, name, *rest = line.decode().split()
                if word == "ended":
                    self.ended.add(name)
                else:
                    self.note(word, name, *rest)

    def _check_witnesses(self):
        for name, process in self._witnesses.items():
            failed = process.poll() not in (None, 0)
            assert not failed, f"witness {name} has died; see {self._log.name}"

    def note(self, word, name, *rest):
        """Take one note of the witness ``name``."""
        raise NotImplementedError


class SenderLives(ServerLives):
    """What producers beside the server have been told."""

    def __init__(self, store, flush, script):
        super().__init__(store, flush, script)
        self.acked = {}
        """Queue and offset by body."""
        self.tried = Counter()
        """How often a send of a body has ended without an answer."""

    def note(self, word, name, *rest):
        """See `ServerLives.note`."""
        if word == "acked":
            body = f"{name}-{rest[0]}"
            assert body not in self.acked
            self.acked[body] = int(rest[1]), int(rest[2])
        elif word == "tried":
            self.tried[f"{name}-{rest[0]}"] += 1

    def hear_more(self, count):
        """Listen until so many messages more are acknowledged."""
        wanted = len(self.acked) + count
        self.hear(lambda: len(self.acked) >= wanted)


def stored_bodies(store, topic):
    """Bodies by queue and offset; the offsets of a queue have no gaps."""
    found = {}
    for queue in store.queues():
        if queue.topic == topic:
            views = messages_in(store, topic, queue.queue_id, queue.min_queue_offset, 1_000)
            offsets = [view.queue_offset for view in views]
            assert offsets == list(range(queue.min_queue_offset, queue.max_queue_offset))
            found |= {(queue.queue_id, view.queue_offset): view.body.decode() for view in views}
    return found
