"""The process that is killed: ``python -m reput_testing.crashes.killedwriter SOCKET``.

It imports everything once and then forks a writer for each death that it is asked for, so that a
death costs no start of an interpreter. It has one thread; the writers have many.

It receives a `Start` with the descriptor of a pipe over the socket, and answers with the writer's
process id. It reaps the writer, and sends the status, only on request: until then no other process
can get the id, and the writer can be killed safely.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import traceback

import reput
from reput.log import BatchReceipt
from reput.plugin import installed
from reput.status import Durability
from reput_testing.crashes.killplan import (
    ACK,
    CLOSED,
    CLOSING,
    CLOSING_PHASE,
    OPENED,
    OPENING_PHASE,
    OPERATION,
    START_SIZE,
    WRITING_PHASE,
    Ack,
    Start,
)
from reput_testing.disks.selfkillingdisk import SelfKillingDisk
from reput_testing.logs import producers


def main() -> None:
    """Fork writers until the other side closes the socket."""
    faulthandler.enable()
    connection = socket.socket(fileno=int(sys.argv[1]))
    _warm_up()
    known = {found.name: found for found in installed()}
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, START_SIZE, 1)
        if not data:
            return
        start = pickle.loads(data)
        for source in start.plugins:  # imported here, not again in each writer
            made = source.plugin()
            if isinstance(made, str) and made in known:
                known[made].load()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            connection.close()
            _end_with(start, descriptors[0])
        os.close(descriptors[0])
        connection.send(b"%d" % pid)
        if not connection.recv(1):
            os.kill(pid, signal.SIGKILL)
        connection.send(b"%d" % os.waitpid(pid, 0)[1])


def _warm_up() -> None:
    """Import what a store imports late, whatever its plugins."""
    with tempfile.TemporaryDirectory() as root:
        log = {"file_size": 65_536}
        with reput.open(root, plugins=[], config={"commitlog": log}, threads=False) as store:
            for call, _ in zip(producers.calls(0, 0, 100), range(30), strict=False):
                _make(store, call)
            store.flush()


def _end_with(start: Start, pipe: int) -> None:
    """Run a writer as ``start`` says; does not return."""
    status = 1
    try:
        _Writer(start, pipe).run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


class _Writer:
    def __init__(self, start: Start, pipe: int) -> None:
        self.start = start
        self.death = start.death
        for name, value in self.death.sizes.items():
            setattr(reput.CommitLogConfig, name, value)
        self.pipe = pipe
        moment = self.death.moment
        dies = moment.kind == OPERATION
        self.phase = moment.phase if dies else ""
        self.disk = SelfKillingDisk(flushes=self.death.flushes, maps=dies)

    def run(self) -> None:
        start, death = self.start, self.death
        self.enter(OPENING_PHASE)
        store = reput.open(
            start.root,
            plugins=[source.plugin() for source in start.plugins],
            config={**start.config, "commitlog": death.commitlog},
            disk=self.disk,
        )
        self.mark(OPENED)
        self.enter(WRITING_PHASE)
        threads = [
            threading.Thread(target=self.produce, args=(store, number))
            for number in range(death.thread_count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.mark(CLOSING)
        self.enter(CLOSING_PHASE)
        store.close()
        self.mark(CLOSED)

    def enter(self, phase: str) -> None:
        """Enter a phase, and die in it if ``start`` says so."""
        if phase == self.phase:
            self.disk.die_at(int(self.death.moment.amount))

    def mark(self, mark: int) -> None:
        os.write(self.pipe, ACK.pack(*Ack.of_mark(mark)))

    def produce(self, store: reput.Store, thread: int) -> None:
        """Make the calls of one producer, and write an acknowledgement after each."""
        try:
            made = producers.calls(
                self.death.seed, thread, self.death.max_body_size, self.death.added
            )
            for number, call in enumerate(made):
                if number == self.death.call_count:
                    return
                receipts = _make(store, call)
                # One write of less than PIPE_BUF bytes is never split and never mixed with other
                # writes.
                acks = b"".join(
                    ACK.pack(
                        thread,
                        call.first + row,
                        receipt.queue_offset,
                        receipt.physical_offset,
                        receipt.durability is Durability.DURABLE,
                    )
                    for row, receipt in enumerate(receipts)
                )
                if acks:
                    os.write(self.pipe, acks)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def _make(store: reput.Store, call: producers.Call) -> BatchReceipt | list[reput.Receipt]:
    match call.kind:
        case producers.PUT:
            return [store.put(call.messages[0])]
        case producers.PUT_MANY:
            return store.put_many(call.messages)
        case producers.PUT_COLUMNS:
            return store.put_many(call.columns())
        case producers.PUT_WHOLE:
            return store.put_many(call.messages, whole=True)
        case producers.FLUSH:
            store.flush()
        case producers.READ:
            for batch in store.scan(max(store.log.last_record_offset, 0)):
                len(batch)
    return []


if __name__ == "__main__":
    main()
