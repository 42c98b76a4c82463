"""`StateFile`: what a store knows about itself beside its log and its queues: ``reput/state``.

What moves with each flush is in two *slots*, which are written in turn, so that a torn write leaves
the other slot: how far the log and the files of each plugin are on disk, where the log begins, and
the states of plugins. All entries of a slot are written at once: they never disagree.

What changes rarely, and may be long, is in the *journal* behind the slots: losses, floors of queue
offsets, ranges of checksums, and what plugins note. A change appends to it.

A few values that must survive every damage are in both: the plugins and options of the store. The
bytes are described in `reput.log.stateblocks`.

The file is replaced as a whole if it does not exist, if slots need more space, if it is damaged, or
if the journal has grown to more than twice what counts in it. On a full disk the journal grows on.
"""

from __future__ import annotations

import functools
import logging
import operator
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from reput.files.filenames import OWN_DIRECTORY
from reput.files.mappedfilequeue import unused_path
from reput.files.system.flushing import is_disk_full
from reput.log.stateblocks import (
    JOURNAL,
    PAGE_SIZE,
    SLOT,
    VERSION,
    Block,
    Contents,
    StateEntry,
    block_of,
    contents_of,
)
from reput.signalsafe import new_lock

if TYPE_CHECKING:
    from reput.files.system.disk import Disk
    from reput.log.stateblocks import Entries

logger = logging.getLogger(__name__)

LOG: Final = ".log"
"""Name of the entry that says how far the log is on disk."""
HEAD: Final = ".head"
"""Name of the entry that says where the log begins."""

_ENTRIES: Final = operator.attrgetter("entries")
_NAME: Final = "state"
_SIZE_MAX: Final = 1 << 30  # bytes that are read: queue ends of some ten million queues
_TRIES: Final = 3  # how often a reader reads slots that another process may be writing
_NO_SLOT: Final = Block(0, 0, 0, 0, {})
_SLACK: Final = 4096  # bytes of a journal that no longer count and are left: an opening reads them


@attrs.define(eq=False, slots=False)  # `contents` is kept in the object's dictionary
class StateFile:
    """Reads and writes the state file of one store; a writer uses one object for all entries."""

    path: str
    disk: Disk
    unreadable: Callable[[OSError], None] | None = None
    """Called if the file cannot be read, which then counts as missing; if None, it raises."""
    _is_unsure: bool = False
    """Whether it is not known which bytes the file has: then it is replaced."""
    _kept: Contents | None = None
    """What was read of the damaged file of which there is a copy."""
    _newest: object = None
    """Of the call that writes, or wrote last: a signal handler may write in the middle of it."""
    _lock: Any = attrs.field(factory=new_lock)

    @classmethod
    def of(cls, root: str, disk: Disk, unreadable: Callable[[OSError], None] | None = None) -> Self:
        """Return the state file of the store at ``root``."""
        return cls(os.path.join(root, OWN_DIRECTORY, _NAME), disk, unreadable)

    def again(self) -> StateFile:
        """Return the same file to be read from disk, where another process may write it."""
        return StateFile(self.path, self.disk, self.unreadable)

    # ------------------------------------------------------------------ reading

    def load(self) -> list[Entries]:
        """Read the file again; return the entries of its whole slots, newest first."""
        with self._lock:
            known: Contents | None = self.__dict__.get("contents")
            newest = self._newest
            if known is not None and known.slots:
                found = self._read(2 * known.slot_size)
                if found.slots and _journal_of(found) == _journal_of(known):
                    if self._newest is newest:  # else a signal handler has written meanwhile
                        known.slots = found.slots
                    return self.known
            found = self._read(_SIZE_MAX)
            if self._newest is newest:
                self.contents = found
            return self.known

    @functools.cached_property
    def contents(self) -> Contents:
        """All that is in the file, as read or written last."""
        self.load()
        return self.contents

    @property
    def known(self) -> list[Entries]:
        """The entries of slots, as read or written last: for a writer, which no other one joins."""
        return list(map(_ENTRIES, self.contents.slots))

    @property
    def sequence(self) -> int:
        """Of the newest slot; increases with each write. 0 if none is whole."""
        return (*self.contents.slots, _NO_SLOT)[0].sequence

    @property
    def is_damaged(self) -> bool:
        """Whether the file existed when it was read last, and no slot was whole."""
        return self.contents.exists and not self.contents.slots

    def value(self, name: str) -> bytes:
        """Return a value of the journal, as read or written last; empty if it has none."""
        return b"".join(self.contents.values.get(name, ()))

    def names(self) -> list[str]:
        """Return the names that have a value in the journal, sorted."""
        return sorted(self.contents.values)

    @property
    def damaged_at(self) -> int | None:
        """File position of the first bytes of the journal that are damaged; None if none are."""
        return self.contents.damaged_at

    @property
    def damage(self) -> str:
        """Which part of the file is damaged, as it was read last; empty if none is."""
        known = self.contents
        if self.is_damaged and known.version != VERSION:
            return f"found format {known.version}, this release reads format {VERSION}"
        if self.is_damaged:
            return "none of its two slots is whole"
        at = known.damaged_at
        return "" if at is None else f"the journal is damaged at byte {at}"

    def _read(self, size: int) -> Contents:
        found = Contents()
        for _ in range(_TRIES):
            try:
                data = self.disk.read_if_exists(self.path, size)
            except OSError as error:
                if self.unreadable is None:
                    raise
                self.unreadable(error)
                return Contents()
            found = contents_of(data or b"", slots_only=size < _SIZE_MAX)
            found.exists = data is not None
            if found.slots or not data:
                break
        return found

    # ------------------------------------------------------------------ slots

    def save(
        self, changed: Mapping[str, bytes], forgotten: str = "", *, always: bool = False
    ) -> None:
        """Change values, in the older slot; on disk when this returns.

        Args:
            changed: new values, by entry.
            forgotten: an entry that is removed.
            always: whether the slot is written if nothing changes.
        """
        with self._lock:
            is_done = False
            while not is_done:  # again if a signal handler has written meanwhile
                self._newest = mine = object()
                known = self.contents
                newest = known.slots[0] if known.slots else _NO_SLOT
                sequence, entries = newest.sequence + 1, dict(newest.entries)
                for name, value in changed.items():
                    if name not in entries or entries[name].value != value:
                        entries[name] = StateEntry(sequence, value)
                entries.pop(forgotten, None)
                if known.slots and not always and entries == newest.entries:
                    return
                slot = Block(known.slot_size, known.generation, sequence, known.end, entries)
                start = sequence % 2 * known.slot_size  # the older slot is overwritten
                data, places = block_of(SLOT, slot), range(start, start + known.slot_size)
                is_done = self._write(mine, data, places, [slot, *known.slots[:1]], {})

    def save_in_both(self, changed: Mapping[str, bytes], forgotten: str = "") -> None:
        """Change values in both slots, and remove an entry."""
        with self._lock:
            for _ in range(2):
                self.save(changed, forgotten, always=True)

    # ------------------------------------------------------------------ journal

    def note(self, changed: Mapping[str, bytes], *, adds: bool = False) -> None:
        """Change values of the journal, all or none; on disk when this returns.

        After an error, the next opening may find the old values or the new ones.

        Args:
            changed: new values, by name; an empty one removes the name.
            adds: whether they are added to the ends of the known values.
        """
        with self._lock:
            is_done = False
            while not is_done:  # likewise
                self._newest = mine = object()
                known = self.contents
                sequence = known.sequence + 1
                entries = {}
                for name, value in changed.items():
                    begun = known.begun.get(name, sequence) if adds else sequence
                    entries[name] = StateEntry(begun, value)
                block = Block(known.slot_size, known.generation, sequence, known.end, entries)
                data, places = block_of(JOURNAL, block), range(known.end, _SIZE_MAX)
                is_done = self._write(mine, data, places, known.slots, entries)

    def note_everywhere(self, changed: Mapping[str, bytes], others: Mapping[str, bytes]) -> None:
        """Change values in the journal and in both slots; on disk when this returns.

        Args:
            changed: new values, by name, which survive any damage to one of them.
            others: values that only the slots get, if the file does not exist yet.
        """
        with self._lock:
            self._newest = mine = object()
            known = self.contents
            if known.slots or known.values:
                self.note(changed)
                self.save_in_both(changed)
                return
            entries = {name: StateEntry(2, value) for name, value in {**others, **changed}.items()}
            slots = [attrs.evolve(_NO_SLOT, sequence=each, entries=entries) for each in (2, 1)]
            first = {name: StateEntry(1, value) for name, value in changed.items()}
            if not self._replace(known, slots, first, mine):
                self.note_everywhere(changed, others)

    def _write(
        self,
        mine: object,
        data: bytes,
        places: range,
        slots: list[Block],
        changed: Mapping[str, StateEntry],
    ) -> bool:
        """Write a block in place if it fits there, or else the whole file again.

        Args:
            mine: identifies the call.
            data: the block.
            places: file positions of the slot, or those behind the journal.
            slots: the slots afterwards, newest first.
            changed: the entries of a block of the journal.

        Returns:
            False if a signal handler has written meanwhile.
        """
        known, end = self.contents, places.start + len(data)
        stays = known.slots != [] and known.damaged_at is None and not self._is_unsure
        fits, is_written = stays and end <= places.stop, False
        if fits and end > 2 * (known.slot_size + known.size) + _SLACK and changed:
            try:  # most of the journal no longer counts
                return self._replace(known, slots, changed, mine)
            except OSError as error:
                if self._is_unsure or not is_disk_full(error):
                    raise
                logger.warning("no space to shorten the file=%s error=%s", self.path, error)
        try:
            is_written = fits and self.disk.overwrite(self.path, data, places.start)
        finally:
            if self._newest is not mine:
                self._is_unsure = True  # the bytes of both calls may be there, in any order
        if not is_written:
            return self._replace(known, slots, changed, mine)
        if self._newest is not mine:
            return False
        known.slots = slots
        if changed:
            _apply(known, changed, known.sequence + 1)
            known.end = end
        return True

    def _replace(
        self, known: Contents, slots: list[Block], changed: Mapping[str, StateEntry], mine: object
    ) -> bool:
        """Write the whole file again: slots, newest first, and the journal as one block.

        Complete from the first moment: a reader would take an empty file for damaged. Both slots
        count, or an older one could be read at a place that is not its own.

        Returns:
            False if a signal handler has written meanwhile.
        """
        values = {name: list(pieces) for name, pieces in known.values.items()}
        fresh = attrs.evolve(known, values=values, begun=dict(known.begun), damaged_at=None)
        _apply(fresh, changed, known.sequence + 1)
        whole = {name: StateEntry(1, b"".join(pieces)) for name, pieces in fresh.values.items()}
        data = _laid_out(fresh, slots or [attrs.evolve(_NO_SLOT, sequence=1)], whole)
        if known.exists and self.damage and self._kept is not known:
            self._keep_damaged()
            self._kept = known  # once only, however often the file cannot be replaced
        was_unsure, self._is_unsure = self._is_unsure, True  # for a signal handler
        try:
            try:
                self.disk.replace(self.path, data)
            except FileNotFoundError:  # the first note in a broker's directory
                self.disk.make_directory(os.path.dirname(self.path), durable=True)
                self.disk.replace(self.path, data)
        except OSError:
            # On a full disk the older file has stayed, whose slots need no space.
            if not was_unsure and self._newest is mine:
                self._is_unsure = self._read(2 * known.slot_size).generation != known.generation
            raise
        if self._newest is not mine:
            self._is_unsure = True  # a signal handler may have replaced it meanwhile, and succeeded
            return False
        self.contents = fresh
        self._is_unsure = False
        return True

    def _keep_damaged(self) -> None:
        """Keep a copy of the file: what cannot be read now may be read by somebody."""
        directory = os.path.dirname(self.path)
        kept = unused_path(self.disk, directory, f"{_NAME}.damaged")
        logger.warning("damaged file kept file=%s copy=%s damage=%s", self.path, kept, self.damage)
        self.disk.replace(kept, self.disk.read_file(self.path, _SIZE_MAX))


def _laid_out(fresh: Contents, slots: list[Block], whole: Mapping[str, StateEntry]) -> bytes:
    """Return the bytes of a new file, and note in ``fresh`` where all is."""
    needed = max(len(block_of(SLOT, slot)) for slot in slots)
    size = fresh.slot_size = -(-needed // PAGE_SIZE) * PAGE_SIZE
    generation = fresh.generation = max(slots[0].sequence, fresh.generation + 1)
    first = Block(size, generation, 1, 2 * size, whole)
    journal = block_of(JOURNAL, first) if whole else b""
    fresh.end = 2 * size + len(journal)
    halves = [b"", b""]
    fresh.slots = []
    for slot in slots:
        laid = attrs.evolve(slot, slot_size=size, generation=generation, journal_end=fresh.end)
        fresh.slots.append(laid)
        halves[slot.sequence % 2] = block_of(SLOT, laid)
    fresh.values = {name: [entry.value] for name, entry in whole.items()}
    fresh.begun = dict.fromkeys(whole, 1)
    fresh.sequence, fresh.exists = int(bool(whole)), True
    return b"".join((halves[0].ljust(size, b"\0"), halves[1].ljust(size, b"\0"), journal))


def _apply(contents: Contents, entries: Entries, sequence: int) -> None:
    for name, (changed, value) in entries.items():
        contents.add(name, changed, value, sequence)
    contents.sequence = sequence


def _journal_of(contents: Contents) -> tuple[int, int]:
    """Return what changes with each block of the journal that a slot knows."""
    return contents.generation, contents.slots[0].journal_end
