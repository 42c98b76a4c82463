"""The processes of a mixed life: ``python mixedwriter.py SOCKET`` forks them, and reaps them.

A writer does all that the first-party plugins offer, at once, from several threads; it writes what
it is about to do, and what came of it, to a journal, a line in one write each, which a kill leaves.
A reader follows queues and asks for keys beside it, and writes down what it has seen.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import os
import pickle
import random
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import mixedplan as plan
from killedactivity import activity
from mixedgroups import Member
from mixedreader import Journal, read
from mixedreplica import follow
from mixedrest import check_back
from mixedserver import Send, free_port, served
from sizes import resize

import reput
import reput_retention.plugin
from reput.errors import ReputError, StoreNotFoundError
from reput.log import ProgressEntry, StateFile
from reput_schedule import delayed
from reput_testing.disks.selfkillingdisk import SelfKillingDisk
from reput_tools.offline import rebuild
from reput_transaction import TransactionEndedError

START_SIZE = 1 << 18


class Clock:
    """The system's, and ahead of it; only ever ahead by more."""

    def __init__(self, ahead_ms: int) -> None:
        self.ahead_ms = ahead_ms

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


# --------------------------------------------------------------------------- writers


class Writer:
    """One process that opens the store for writing."""

    def __init__(
        self, root: str, journal: str, death: plan.Death, ahead_ms: int, port: int
    ) -> None:
        self.root = root
        self.port = port
        self.journal = Journal(journal)
        self.death = death
        chance = random.Random(death.seed)
        resize(
            {
                "commitlog": {
                    "made_ahead_from": chance.choice((0, 1 << 30)),
                    "plugin_flush_interval_ms": chance.choice((1, 5, 20, 1_000)),
                },
                "transaction": {"op_batch_interval_ms": chance.choice((0, 50, 3_000))},
                # A plugin tries again soon: the disk is full for so many operations.
                "dispatch": {"retry_max_pause_ms": 100},
            }
        )
        reput_retention.plugin._CHECK_INTERVAL_MS = chance.choice((50, 500, 10_000))
        self.clock = Clock(ahead_ms)
        self.disk = SelfKillingDisk(flushes=death.flushes, maps=death.operation is not None)
        self.disk.be_full(*death.full)
        self.disk.before_death = lambda: self.journal.note("dies", activity=activity())
        self.store: Any = None
        self.send: Send | None = None
        """Sends through the socket of the broker that serves the store."""
        self.parked: list[tuple[str, Any]] = []
        """Timed messages that may be cancelled."""

    def run(self) -> None:
        {plan.WRITE: self.write, plan.REBUILD: self.rebuild, plan.BACKFILL: self.backfill}[
            self.death.job
        ]()

    def enter(self, phase: str) -> None:
        self.journal.note("phase", phase=phase, ahead_ms=self.clock.ahead_ms)
        if phase == self.death.phase:
            if self.death.operation is not None:
                self.disk.die_at(self.death.operation)
            else:
                threading.Timer(self.death.seconds, self.disk.die).start()

    def open(self) -> Any:
        self.enter(plan.OPENING)
        for _ in range(self.death.full[1]):
            with self.full_disk():
                return self._open()
        return self._open()

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Go on behind what fails while the disk is full."""
        try:
            yield
        except (ReputError, OSError):
            if not self.death.full[1]:
                raise

    def _open(self) -> Any:
        return reput.open(
            self.root,
            plugins=self.death.plugins,
            config=self.death.sections,
            disk=self.disk,
            clock=self.clock,
        )

    def close(self) -> None:
        self.enter(plan.CLOSING)
        with self.full_disk():
            self.store.close()
            self.journal.note("closed")

    def write(self) -> None:
        self.store = self.open()
        plan.resume_all(self.store)
        self.store.plugin("transaction").on_check(check_back)
        self.enter(plan.WRITING)
        with contextlib.ExitStack() as serving:
            if self.death.serves:
                self.send = serving.enter_context(served(self.store, self.port))
            self.work()
        self.close()

    def work(self) -> None:
        """Let producers, consumers and the one who keeps house do their calls."""
        threads = [
            threading.Thread(target=self.guarded, args=(self.produce, number))
            for number in range(self.death.threads)
        ]
        threads.append(threading.Thread(target=self.guarded, args=(self.keep_house, 99)))
        for number, group in enumerate(self.death.groups):
            consume = functools.partial(self.consume, group)
            threads.append(threading.Thread(target=self.guarded, args=(consume, 100 + number)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def rebuild(self) -> None:
        self.enter(plan.OPENING)
        self.enter(plan.WRITING)
        self.enter(plan.CLOSING)
        with contextlib.suppress(StoreNotFoundError):  # none was made before the kill
            with self.full_disk():
                rebuild(self.root, jobs=1, disk=self.disk)
                self.journal.note("rebuilt")

    def backfill(self) -> None:
        """As ``reput backfill --from-start`` does it."""
        # FileNotFoundError: no store was made before the kill.
        with self.full_disk(), contextlib.suppress(FileNotFoundError):
            ProgressEntry(StateFile.of(self.root, self.disk), self.death.plugin).reset()
        self.store = self.open()
        plan.resume_all(self.store)
        self.enter(plan.WRITING)
        self.store.wait_dispatched()
        self.close()

    def guarded(self, function: Callable[[random.Random, int], None], number: int) -> None:
        try:
            function(random.Random(f"{self.death.seed}:{number}"), number)
        except BaseException:
            text = traceback.format_exc()
            self.journal.note("error", text=text)
            os._exit(3)

    # ------------------------------------------------------------------ producers

    def produce(self, chance: random.Random, thread: int) -> None:
        kinds = (self.plain, self.many, self.level, self.timed, self.cancel, self.block)
        more = (self.half, self.keyed, self.flush)
        weights = (20, 5, 10, 14, 3, 6, 8, 20, 2)
        number = 0
        for _ in range(self.death.calls):
            call = chance.choices((*kinds, *more), weights)[0]
            names = [f"{self.death.number}.{thread}.{number + each}" for each in range(5)]
            number += 5
            with self.full_disk():
                call(chance, names)

    def told(self, call: Callable[[], Any], kind: str, names: list[str], **facts: Any) -> Any:
        self.journal.note("begin", names=names, kind=kind, **facts)
        receipts = call()
        if receipts is not None:
            places = [[each.physical_offset, each.queue_offset] for each in receipts]
            self.journal.note("done", names=names, places=places)
        return receipts

    def message(
        self, chance: random.Random, name: str, kind: str, **options: Any
    ) -> tuple[str, reput.Message]:
        name = f"{name}-{kind}"
        message = reput.Message(
            plan.TOPIC_OF[kind],
            options.pop("body", None) or plan.body_for(name, chance),
            chance.randrange(plan.QUEUES),
            tags=chance.choice((None, "TagA", "paid")),
            keys=options.pop("keys", f"key-{name}"),
            **options,
        )
        return name, message

    def plain(self, chance: random.Random, names: list[str]) -> None:
        name, message = self.message(chance, names[0], plan.PLAIN)
        # A broker takes messages from both sides.
        put = self.send if self.send and chance.random() < 0.7 else self.store.put
        self.told(lambda: [put(message)], plan.PLAIN, [name])

    def many(self, chance: random.Random, names: list[str]) -> None:
        made = [self.message(chance, name, plan.PLAIN) for name in names]
        known = [name for name, _ in made]
        self.told(lambda: self.store.put_many([each for _, each in made]), plan.PLAIN, known)

    def level(self, chance: random.Random, names: list[str]) -> None:
        name, message = self.message(chance, names[0], plan.LEVEL)
        level = chance.choice((1, 1, 2, 3))
        late = delayed(message, level=level)
        self.told(lambda: [self.store.put(late)], plan.LEVEL, [name], level=level)

    def timed(self, chance: random.Random, names: list[str]) -> None:
        name, message = self.message(chance, names[0], plan.TIMED)
        due = self.clock() + chance.choice((0, 15, 60, 150, 400, 1_200, 2_500, 6_000))
        late = delayed(message, deliver_at=due)
        receipts = self.told(lambda: [self.store.put(late)], plan.TIMED, [name], due=due)
        if due - self.clock() > 1_000:
            self.parked.append((name, receipts[0]))

    def cancel(self, chance: random.Random, names: list[str]) -> None:
        if not self.parked:
            return
        try:
            name, receipt = self.parked.pop(chance.randrange(len(self.parked)))
        except (IndexError, ValueError):
            return  # another producer was quicker
        with contextlib.suppress(ValueError):  # it is due already
            self.told(lambda: [self.store.plugin("schedule").cancel(receipt)], "cancel", [name])

    def block(self, chance: random.Random, names: list[str]) -> None:
        kind = chance.choice((plan.COMMITTED, plan.ROLLED_BACK))
        made = [self.message(chance, name, kind) for name in names[: chance.randint(1, 3)]]
        known = [name for name, _ in made]
        self.journal.note("begin", names=known, kind=kind)
        try:
            with self.store.plugin("transaction").transaction(group="shop") as transaction:
                for name, message in made:
                    half = transaction.put(message)
                    self.journal.note("half", names=[name], places=[half.physical_offset])
                if kind == plan.ROLLED_BACK:
                    raise _OutOfStockError
        except (_OutOfStockError, TransactionEndedError):
            pass  # the latter: a check was quicker
        except (ReputError, OSError):
            self.journal.note("unsure", names=known)  # it is rolled back
            raise
        self.journal.note("ended", names=known)

    def half(self, chance: random.Random, names: list[str]) -> None:
        kind = chance.choice((plan.COMMITTED, plan.ROLLED_BACK))
        name, message = self.message(chance, names[0], kind)
        self.journal.note("begin", names=[name], kind=kind)
        half = self.store.plugin("transaction").prepare(message, group="shop")
        self.journal.note("half", names=[name], places=[half.physical_offset])
        if chance.random() < 0.4:
            return  # a check will tell
        try:
            self.store.plugin("transaction").commit(
                half
            ) if kind == plan.COMMITTED else self.store.plugin("transaction").rollback(half)
        except TransactionEndedError:
            pass  # a check was quicker
        self.journal.note("ended", names=[name])

    def keyed(self, chance: random.Random, names: list[str]) -> None:
        key = f"k{chance.randrange(plan.KEYS)}"
        name, message = self.message(chance, names[0], plan.KEYED, keys=key)
        self.told(lambda: [self.store.put(message)], plan.KEYED, [name])

    def flush(self, chance: random.Random, names: list[str]) -> None:
        self.store.flush()

    # ------------------------------------------------------------------ beside the producers

    def consume(self, group: str, chance: random.Random, thread: int) -> None:
        Member(self.store, self.journal.note, chance, group).run(self.death.calls, self.full_disk)

    def keep_house(self, chance: random.Random, thread: int) -> None:
        jobs = [self.jump, self.clean, self.compact, self.renew, self.pause, self.look, self.flush]
        weights = [10, 8, 5, 4, 4, 10, 4]
        if "retention" in self.death.plugins:
            jobs.append(self.expire)
            weights.append(8)
        for _ in range(self.death.calls // 3):
            job = chance.choices(jobs, weights)[0]
            with self.full_disk():
                job(chance, [])
            threading.Event().wait(chance.random() * 0.01)  # producers have their turn

    def jump(self, chance: random.Random, names: list[str]) -> None:
        self.clock.ahead_ms += chance.choice((5, 100, 700))
        self.journal.note("jump", ahead_ms=self.clock.ahead_ms)
        self.store.work()

    def clean(self, chance: random.Random, names: list[str]) -> None:
        offsets = self.store.log.file_offsets[-chance.choice((4, 8)) :]
        if not offsets:
            return  # nothing was put yet, and no file is there
        self.journal.note("clean")
        report = self.store.trim_log(offsets[0])
        self.journal.note("cleaned", min=report.min_physical_offset)

    def expire(self, chance: random.Random, names: list[str]) -> None:
        """Remove what retention does not keep now, not only at its next check."""
        report = self.store.expire_log()
        self.journal.note("cleaned", min=report.min_physical_offset)

    def compact(self, chance: random.Random, names: list[str]) -> None:
        self.store.plugin_objects["compaction"].compact()

    def renew(self, chance: random.Random, names: list[str]) -> None:
        """Take a plugin away while others work, and add it."""
        name = chance.choice(sorted(plan.RENEWED.intersection(self.death.plugins)))
        self.store.remove_plugin(name)
        self.store.add_plugin(name, dict(self.death.sections[name]))

    def pause(self, chance: random.Random, names: list[str]) -> None:
        """Suspend a plugin for a moment while others work."""
        # A resumed plugin is opened again, and members of groups would have to be, too.
        name = chance.choice(sorted(set(self.death.plugins) - {"consumer"}))
        self.store.suspend_plugin(name)
        threading.Event().wait(chance.random() * 0.01)
        self.store.resume_plugin(name)

    def look(self, chance: random.Random, names: list[str]) -> None:
        self.store.plugin("schedule").scheduled()
        self.store.plugin("transaction").dangling()
        for info in self.store.queues():
            self.store.read(info.topic, info.queue_id, info.min_queue_offset)


class _OutOfStockError(Exception):
    pass


def write(root: str, journal: str, death: plan.Death, ahead_ms: int, port: int = 0) -> None:
    """The life of a writer; a broker listens on the port, if one is to serve the store."""
    Writer(root, journal, death, ahead_ms, port).run()


# --------------------------------------------------------------------------- the template


def warm_up() -> None:
    """Live once, so that processes which are forked have imported all that a life needs."""
    life = plan.Life(1, 1)
    sections = life.sections(random.Random(1)) | {"integrity": {}, "retention": {}}
    with tempfile.TemporaryDirectory() as directory:
        root, journal = os.path.join(directory, "store"), os.path.join(directory, "journal")
        calm = attrs.evolve(
            next(life.deaths()),
            sections=sections,
            serves=True,
            phase=plan.FULLY,
            operation=None,
            calls=20,
            seconds=3_600.0,
            groups=plan.GROUPS,
        )
        write(root, journal, calm, 0, free_port())
        # This starts the process that looks after shared memory, which each fork uses, too.
        write(root, journal, attrs.evolve(calm, job=plan.REBUILD), 0)


def main() -> None:
    """Fork processes until the other end hangs up."""
    faulthandler.enable()
    connection = socket.socket(fileno=int(sys.argv[1]))
    import reput_compaction  # noqa: F401
    import reput_consumequeue  # noqa: F401
    import reput_filter  # noqa: F401
    import reput_index  # noqa: F401

    resize(plan.SIZES)
    warm_up()
    gc.freeze()
    functions: dict[str, Callable[..., None]] = {
        "write": write,
        "read": read,
        "follow": follow,
    }
    while True:
        data = connection.recv(START_SIZE)
        if not data:
            return
        name, arguments = pickle.loads(data)
        if name == "reap":
            _, status, used = os.wait4(arguments, 0)
            connection.send(b"%d %f" % (status, used.ru_utime + used.ru_stime))
            continue
        pid = os.fork()
        if pid == 0:
            connection.close()
            status = 1
            try:
                functions[name](**arguments)
                status = 0
            except BaseException:
                Journal(arguments["journal"]).note("error", text=traceback.format_exc())
            finally:
                sys.stderr.flush()
                os._exit(status)
        connection.send(b"%d" % pid)


if __name__ == "__main__":
    main()
