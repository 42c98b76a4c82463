"""`KillLoop`: kills the writers of a store, one after another, and checks what each has left.

    KillLoop(tmp_path).run(60)

A writer puts messages from up to 16 threads and acknowledges each through a pipe. It dies by
SIGKILL while it opens, writes or closes the store: by a kill from outside at a random moment, or by
its own disk in the middle of an operation. Then the store is opened, for reading and for writing,
and compared with what was acknowledged (`reput_testing.crashes.survivingmessages`). The next writer
starts with the files as they were left, so that one crash follows another.

A failure names the directory of those files, and prints the command that repeats the same life of
the store: ``REPUT_KILL_SEED`` is the seed and, after a slash, the number of the life.
``REPUT_KILLS`` is the number of kills; with ``REPUT_SOAK=1`` there are thousands.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

import reput
from reput.errors import StoreNotFoundError
from reput.record import Message
from reput_testing.casebudget import is_soak, part_of_count
from reput_testing.crashes.killplan import CLOSED_PHASE, Death, Life, PluginSource, Start
from reput_testing.crashes.killrounds import KILLS_VARIABLE, KillRounds
from reput_testing.crashes.survivingmessages import SurvivingMessages, records_of
from reput_testing.crashes.writerprocess import HANG_SECONDS, Outcome, WriterTemplate
from reput_testing.disks import filedamage
from reput_testing.disks.failingdisk import QuickDisk

_SOAK_KILLS = 1_500
_ADDED_SIZE = 1 << 16

Sections = Mapping[str, Mapping[str, Any]]


def kill_count(usual: int) -> int:
    """Return the number of kills: ``REPUT_KILLS``, 1,500 with ``REPUT_SOAK=1``, else ``usual``."""
    count = _SOAK_KILLS if is_soak() else part_of_count(usual)
    return int(os.environ.get(KILLS_VARIABLE) or count)


class KillLoop(KillRounds[WriterTemplate]):
    """Lives of stores whose writers are killed.

    Attributes:
        killed: kills, by the phase in which they happened.
        closed_count: writers that ended by themselves.
        acked_count: acknowledged messages.
    """

    def __init__(
        self,
        directory: Path,
        plugins: Sequence[PluginSource] = (),
        *,
        config: Sections | None = None,
        check: Callable[[reput.Store], None] | None = None,
        check_closed: Callable[[Path, Sections], None] | None = None,
        messages: Sequence[Message] = (),
        commitlog: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the loop; `run` starts it.

        Args:
            directory: stores are made below it.
            plugins: plugins of the stores.
            config: their sections.
            check: called after each death with the store, open for writing and fully dispatched.
            check_closed: called after this store was closed, with its directory and sections.
            messages: what producers put beside their own messages: the first that have up to 64 KiB
                together.
            commitlog: options of the log that no life chooses by chance, such as ``flush``.
        """
        super().__init__()
        self.closed_count = 0
        self.acked_count = 0
        self._directory = directory
        self._plugins = tuple(plugins)
        self._config = dict(config or {})
        self._check = check
        self._check_closed = check_closed
        self._messages = _first_of(messages)
        self._commitlog = dict(commitlog or {})
        self._survivors = SurvivingMessages()

    def __str__(self) -> str:
        return (
            f"{self.killed_count} kills ({self.kinds}), {self.closed_count} closed, "
            f"{self.acked_count} messages acknowledged, "
            f"{self.killed_count / max(self.seconds, 1e-9):.1f} kills/s, seed {self.seed}"
        )

    # ------------------------------------------------------------------ lives and deaths

    def processes(self) -> WriterTemplate:
        """Return the process that forks writers."""
        return WriterTemplate(self._directory / "writers.log")

    def live(self, processes: WriterTemplate, life: int, kills: int) -> None:
        """Kill the writers of one store, one after another."""
        home = self._directory / "life"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        root, self._survivors = home / "store", SurvivingMessages()
        for planned in Life(self.seed, life).deaths():
            size = planned.max_body_size
            added = tuple(each for each in self._messages if len(each.body) <= size)
            log = {**planned.commitlog, **self._commitlog}
            death = attrs.evolve(planned, added=added, commitlog=log)
            try:
                outcome = self._die(processes, death, root)
                self._look(death, root, outcome)
            except Exception as error:
                raise AssertionError(
                    f"{type(error).__name__}: {error}\n"
                    f"life {life}, death {death.number} after {self.killed_count} kills: "
                    f"{death.moment}, {death.thread_count} producers, {dict(death.commitlog)}\n"
                    f"the store as it was left: {root}\n{processes.said()}{self.again(life)}"
                ) from error
            if self.killed_count >= kills:
                return

    def _die(self, template: WriterTemplate, death: Death, root: Path) -> Outcome:
        config = {**self._config, "commitlog": death.commitlog}
        writer = template.start(Start(os.fspath(root), death, self._plugins, config))
        try:
            outcome = writer.watch(death)
        except BaseException:
            writer.kill()
            raise
        finally:
            status = template.reap()
            writer.close()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.count_kill(outcome.phase)
        elif status == 0 and outcome.phase == CLOSED_PHASE:
            self.closed_count += 1
        else:
            raise AssertionError(f"the writer failed: {os.waitstatus_to_exitcode(status)}")
        self.acked_count += len(outcome.acks)
        if death.commitlog["flush"] == "sync":
            weak = [ack for ack in outcome.acks if not ack.is_durable]
            assert not weak, f"acknowledged before it was on disk: {weak[0]}"
        return outcome

    # ------------------------------------------------------------------ looking

    def _look(self, death: Death, root: Path, outcome: Outcome) -> None:
        before = {key: len(places) for key, places in self._survivors.queues.items()}
        if death.reads_first:
            self._read(death, root, outcome, before)
        # A writer gets a copy: the files stay as they were left, for the next writer and for the
        # person who looks into a failure.
        mended = root.parent / "mended"
        shutil.rmtree(mended, ignore_errors=True)
        if root.exists():
            shutil.copytree(root, mended)
        config = {**self._config, "commitlog": {**death.commitlog, "flush": "async"}}
        with self._open(mended, config=config) as store:
            assert store.clean or outcome.phase != CLOSED_PHASE, "it was closed, and is not clean"
            found = records_of(store)
            if death.reads_first:
                known = self._survivors.records
                assert found == known, (
                    f"a reader finds {len(known)}, a writer {len(found)} messages"
                )
            else:
                self._survivors.add(found, death, outcome.acks)
            assert store.wait_dispatched(HANG_SECONDS), "the plugins do not catch up"
            for state in store.plugins():
                assert state.last_error is None, f"{state.name}: {state.last_error}"
            # Now and then all of each queue, otherwise what is new.
            self._survivors.compare_queues(store, before if death.number % 4 else {})
            if self._check is not None:
                self._check(store)
        if self._check_closed is not None:
            self._check_closed(mended, config)
        if death.goes_on_repaired:
            shutil.rmtree(root, ignore_errors=True)
            mended.rename(root)

    def _read(
        self, death: Death, root: Path, outcome: Outcome, before: Mapping[tuple[str, int], int]
    ) -> None:
        """Open what is left as a reader, and check that nothing changes."""
        traces = filedamage.traces(root)
        try:
            with self._open(root, "r", config=self._config) as store:
                self._survivors.add(records_of(store), death, outcome.acks)
                self._survivors.compare_queues(store, before)
        except StoreNotFoundError:  # killed before there was a store
            self._survivors.add([], death, outcome.acks)
        assert filedamage.traces(root) == traces, "a read-only opening wrote something"

    def _open(self, root: Path, mode: Literal["w", "r"] = "w", *, config: Sections) -> reput.Store:
        plugins = [source.plugin() for source in self._plugins]
        options: dict[str, Any] = {"disk": QuickDisk(), "threads": False}
        return reput.open(root, mode, plugins=plugins, config=config, **options)


def _first_of(messages: Sequence[Message]) -> list[Message]:
    """Return the first messages that a writer can be told of in one datagram."""
    found, size = [], 0
    for message in messages:
        size += len(pickle.dumps(message))
        if size > _ADDED_SIZE:
            break
        found.append(message)
    return found
