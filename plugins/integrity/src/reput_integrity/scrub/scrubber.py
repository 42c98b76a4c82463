"""`Scrubber`: reads a store's log piece by piece, and compares it with its checksums.

Each record is decoded, its body compared with RocketMQ's checksum and, where the store has sums,
all of it with its sum. The store is opened for reading, beside its writer, by a disk that leaves
the page cache as it was.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

import reput
from reput.errors import StoreLockedError
from reput.files import OWN_DIRECTORY, Disk, is_read_only, system_clock
from reput_integrity.batchcheck import BatchChecker
from reput_integrity.findings import SumFinding
from reput_integrity.layout import DIRECTORY
from reput_integrity.scrub.cacheneutraldisk import CacheNeutralDisk
from reput_integrity.scrub.scrubstate import ScrubState
from reput_integrity.scrub.tokenbucket import TokenBucket

if TYPE_CHECKING:
    from reput.log import Damage, LogReader

_SAVE_EVERY_MS = 10_000
_NAME = "scrub"


class Scrubber:
    """Scrubs one store, from where the last scrub ended; `step` by step, or with `run`.

    A context manager. Not thread-safe.

    Args:
        path: the store's directory.
        rate: bytes of the log a second; 0 for as fast as possible.
        state: file that remembers the place; ``<store>/reput/scrub`` when left out. None stands for
            no file, also in a store that reput never wrote, or that cannot be written.
        follow_links: as for `reput.open`.
        clock: ms since the epoch.
        monotonic: seconds.

    Raises:
        StoreLockedError: another scrub of the store is running.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        rate: int = 0,
        *,
        state: str | os.PathLike[str] | None = "",
        follow_links: bool = False,
        clock: Callable[[], int] = system_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = os.path.abspath(path)
        self.pace = TokenBucket(rate, monotonic)
        self._follow_links = follow_links
        self.clock = clock
        self._stack = contextlib.ExitStack()
        self._store: reput.Store | None = None
        self._pieces: Iterator[tuple[list[SumFinding], int]] | None = None
        self._disk = Disk().at(self.root, follow_links=follow_links)
        self._memory = self._disk  # where the state is
        self._file = self._place_of(state)
        self._saved = clock()
        self._must_remember = bool(state)
        if self._file is not None:
            with self._forgetting():
                self._lock(f"{self._file}.lock")
        self.state = (
            ScrubState() if self._file is None else ScrubState.load(self._file, self._memory)
        )

    def __enter__(self) -> Scrubber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _place_of(self, state: str | os.PathLike[str] | None) -> str | None:
        if state is None:
            return None
        if os.fspath(state):
            file = os.path.abspath(os.fspath(state))
            self._memory = Disk().at(os.path.dirname(file), follow_links=True)
            return file
        if not self._disk.exists(os.path.join(self.root, OWN_DIRECTORY)):
            return None
        return os.path.join(self.root, OWN_DIRECTORY, _NAME)

    def _lock(self, path: str) -> None:
        descriptor = self._memory.open(path, create=True)
        if not self._memory.lock(descriptor):
            self._memory.close(descriptor)
            raise StoreLockedError(path, None)
        self._stack.callback(self._memory.close, descriptor)

    @contextlib.contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Do without a file for the place if the store cannot be written, and none was named."""
        try:
            yield
        except OSError as error:
            if self._must_remember or not is_read_only(error):
                raise
            assert self._file is not None
            self._memory.list_names(os.path.dirname(self._file))  # which may not be read, either
            self._file = None

    @property
    def remembers(self) -> bool:
        """Whether a file remembers the place."""
        return self._file is not None

    @property
    def has_sums(self) -> bool:
        """Whether the store has sums of whole records."""
        return self._disk.exists(os.path.join(self.root, DIRECTORY))

    @property
    def extent(self) -> tuple[int, int]:
        """Physical offsets between which the log is."""
        log = self._opened().log
        return log.min_physical_offset, log.max_physical_offset

    # ------------------------------------------------------------------ rounds

    def due(self, every_ms: int) -> int:
        """Return when the next round is due, ms; a time that has passed if one is under way."""
        if self.state.began is not None or self.state.last_began is None:
            return 0
        return self.state.last_began + every_ms

    def restart(self) -> None:
        """Begin a new round at the log's beginning, whatever the last one has left."""
        self._pieces = None
        self.state = attrs.evolve(self.state, began=None)

    def step(self) -> list[SumFinding] | None:
        """Read the next few MiB, at most; begin a round if none is under way.

        The caller waits for `delay` before the next call.

        Returns:
            What was found; None at the end of a round, which is saved.
        """
        if self.state.began is None:
            self._begin()
        if self._pieces is None:
            self._pieces = self._round()
        piece = next(self._pieces, None)
        if piece is None:
            self._end()
            return None
        found, end = piece
        size = max(end - self.state.position, 0)
        self.pace.take(size)
        state = attrs.evolve(
            self.state,
            position=max(end, self.state.position),
            read_size=self.state.read_size + size,
        )
        self.state = state.with_findings(found)
        if self.clock() - self._saved >= _SAVE_EVERY_MS:
            self.save()
        return found

    @property
    def delay(self) -> float:
        """Seconds to wait before the next `step`."""
        return self.pace.delay

    def run(
        self,
        *,
        found: Callable[[SumFinding], None] = lambda finding: None,
        progress: Callable[[int, int], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> ScrubState:
        """Scrub to the end of the round, and return the state at its end.

        Args:
            found: called with each finding.
            progress: called with bytes done and bytes in all, of the round.
            sleep: waits for seconds.
        """
        while (findings := self.step()) is not None:
            for each in findings:
                found(each)
            if progress is not None:
                low, high = self.extent
                progress(max(self.state.position - low, 0), max(high - low, 0))
            if self.delay:
                sleep(self.delay)
        return self.state

    def save(self) -> None:
        """Bring the place to disk."""
        self._saved = self.clock()
        if self._file is not None:
            with self._forgetting():
                self._memory.replace(self._file, self.state.encode())

    def close(self) -> None:
        """Save the place, and close the store."""
        try:
            if self._store is not None and self.state.began is not None:
                self.save()
        finally:
            self.leave()
            self._stack.close()

    # ------------------------------------------------------------------ one round

    def _begin(self) -> None:
        self.state = attrs.evolve(
            self.state,
            position=0,
            began=self.clock(),
            read_size=0,
            findings=(),
            finding_count=0,
        )

    def _round(self) -> Iterator[tuple[list[SumFinding], int]]:
        """Yield what each piece of the log has, and the physical offset at which it ends."""
        from reput_tools.offline import DamageCollector

        store = self._opened()
        log, has_sums = store.log, self.has_sums
        sums = store.plugin(DIRECTORY).checker() if has_sums else None
        batches = None if sums is None else BatchChecker(sums)
        damages = DamageCollector(log)
        start = self._start(log)
        self.state = attrs.evolve(self.state, position=start)
        for batch in log.scan(start, check_crc=True):
            damages.damages.clear()
            damages.add(batch)
            known = log.losses(batch.end_offset, batch.end_offset + 1)
            found = [] if batches is None else batches.findings(batch)
            found += [_finding_of(each, log, self.root) for each in damages.damages if not known]
            ends = (each.end_offset for each in damages.damages)
            yield found, max(batch.end_offset, *ends, 0)
        if sums is not None:
            yield list(sums.findings(log.max_physical_offset)), log.max_physical_offset

    def _start(self, log: LogReader) -> int:
        """Return where the round goes on: at a record, also in a log that was cut meanwhile."""
        low, high = log.min_physical_offset, log.max_physical_offset
        position = min(self.state.position, high)
        if position <= low:
            return low
        if position == high or log.read_message(position) is not None:
            return position
        return max(position // log.file_size * log.file_size, low)

    def _end(self) -> None:
        state = self.state
        self.state = attrs.evolve(
            state,
            position=0,
            began=None,
            rounds=state.rounds + 1,
            last_began=state.began,
            last_ended=self.clock(),
        )
        self.leave()  # the next round sees a log that may begin elsewhere
        self.save()

    def _opened(self) -> reput.Store:
        if self._store is None:
            plugins = [DIRECTORY] if self.has_sums else []
            self._store = reput.open(
                self.root,
                "r",
                plugins=plugins,
                disk=CacheNeutralDisk(),
                follow_links=self._follow_links,
            )
        return self._store

    def leave(self) -> None:
        """Close the store; the next step opens it again, and goes on at the same place."""
        self._pieces = None
        store, self._store = self._store, None
        if store is not None:
            store.close()


def _finding_of(damage: Damage, log: LogReader, root: str) -> SumFinding:
    path, position = log.path_of(damage.start_offset)
    return SumFinding(
        kind="damage",
        physical_offset=damage.start_offset,
        size=damage.size,
        path=os.path.relpath(path, root),
        position=position,
        expected="a sound record",
        found=f"{damage.reason}: {damage.detail}",
        topic=damage.topic,
        queue_id=damage.queue_id,
        queue_offset=damage.queue_offset,
    )
