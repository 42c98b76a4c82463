"""The states in which a power cut may leave a directory, and the files of each state.

A `CrashPoint` is one moment in the life of a `reput_testing.SimulatedDisk`. Bytes flushed before
this moment is certain. Each other piece may be on disk or not, independently of the rest:

* each page of 4096 bytes, with any of the contents that it had since its file was flushed, or torn
  between two of its sectors of 512 bytes;
* each file's size, whatever its pages are (bytes never written read as zero);
* each change of a name (made, renamed, removed) since its directory was flushed. A rename happened
  as a whole or not at all. Changes of the same name survive in their order only.

One choice for every piece is a `CrashState`; its `id` spells out the choices, so that the same
state can be recreated from the same point.

Source: Pillai et al., "All File Systems Are Not Created Equal" (OSDI 2014), for the model.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import attrs

PAGE_SIZE: Final = 4096
"""Bytes that usually reach the disk together."""
SECTOR_SIZE: Final = 512
"""Bytes that always reach the disk together."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_CONTENTS_MAX: Final = 24  # contents of one page that are tried, torn ones not counted
_NO_PAGE: Final = bytes(PAGE_SIZE)


# --------------------------------------------------------------------------- what is recorded


@attrs.frozen(slots=False)  # for what is computed once and kept
class FileState:
    """Sizes and pages of a file, each with its first moment; durable ones first."""

    sizes: tuple[tuple[int, int], ...] = ((0, 0),)
    """``(moment, bytes)``."""
    pages: Mapping[int, tuple[tuple[int, bytes], ...]] = attrs.field(factory=dict)
    """Number of the page to ``(moment, content)``; a missing page is zero."""
    dropped: frozenset[int] = frozenset()
    """Pages that the system gave up writing: a flush skips them until they are changed."""

    @property
    def size(self) -> int:
        """Current size, bytes."""
        return self.sizes[-1][1]

    def page(self, number: int) -> bytes:
        """Return the current content of a page."""
        contents = self.pages.get(number)
        return contents[-1][1] if contents else _NO_PAGE

    def resized(self, moment: int, size: int) -> FileState:
        """Return this state with another size from ``moment`` on."""
        return attrs.evolve(self, sizes=(*self.sizes, (moment, size)))

    def changed(self, moment: int, pages: Mapping[int, bytes]) -> FileState:
        """Return this state with other pages from ``moment`` on."""
        fresh = {
            number: (*self.pages.get(number, ((0, _NO_PAGE),)), (moment, data))
            for number, data in pages.items()
        }
        return attrs.evolve(self, pages={**self.pages, **fresh}).touched(pages)

    def touched(self, pages: Iterable[int]) -> FileState:
        """Return this state with pages that were written, perhaps with the same content."""
        return attrs.evolve(self, dropped=self.dropped.difference(pages))

    def flushed(self) -> FileState:
        """Return this state with only the current size and pages, which are durable."""
        pages = {
            number: contents if number in self.dropped else contents[-1:]
            for number, contents in self.pages.items()
        }
        return FileState(self.sizes[-1:], pages, self.dropped)

    def content(self, chosen: Mapping[int, Any]) -> bytes:
        """Return the bytes in the chosen forms: pages by number, size by -1, default newest."""
        size = chosen.get(-1, self.size)
        data = bytearray(size)
        for number in self.pages:
            start = number * PAGE_SIZE
            if start < size:
                page = chosen.get(number) or self.page(number)
                data[start : start + PAGE_SIZE] = page[: size - start]
        return bytes(data)

    def digest(self, chosen: Mapping[int, Any]) -> bytes:
        """Return the digest of `content`; kept, as most states of a disk differ in one file."""
        key = tuple((page, hash(form)) for page, form in chosen.items())
        found = self._digests.get(key)
        if found is None:
            found = hashlib.blake2b(self.content(chosen), digest_size=16).digest()
            self._digests[key] = found
        return found

    @cached_property
    def _digests(self) -> dict[tuple[tuple[int, int], ...], bytes]:
        return {}

    def given_up(self) -> FileState:
        """Return this state with what was not flushed in memory only, for good."""
        dirty = (number for number, contents in self.pages.items() if len(contents) > 1)
        return attrs.evolve(self, dropped=self.dropped.union(dirty))


@attrs.frozen
class NameChange:
    """One name, or two at once, that got another meaning."""

    moment: int
    operation: str
    names: tuple[tuple[int, str, int | None], ...]
    """``(directory number, name, file or directory that it names from now on)``; None: nothing."""

    def apply(self, directories: dict[int, dict[str, int]]) -> None:
        """Apply the change to ``directories``."""
        for directory, name, node in self.names:
            entries = directories.setdefault(directory, {})
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node


def changes_needed(changes: Sequence[NameChange]) -> list[tuple[int, ...]]:
    """Return, for each change, the numbers of changes before it without which it cannot be.

    For each of its names that is the last change of that name, which needs the others in turn.
    """
    last: dict[tuple[int, str], int] = {}
    found = []
    for number, change in enumerate(changes):
        names = [each[:2] for each in change.names]
        found.append(tuple({last[name] for name in names if name in last}))
        last.update(dict.fromkeys(names, number))
    return found


# --------------------------------------------------------------------------- choices


@attrs.frozen
class _Piece:
    """Something that is on disk in one of several forms."""

    what: str
    moments: tuple[int, ...]
    """When each form came to be; the durable form first, the newest last."""
    contents: tuple[Any, ...] = ()
    """The forms: sizes, or contents of a page, torn ones after those of ``moments``."""
    file: int = -1
    page: int = -1
    """Number of the page; -1 for a size."""

    @property
    def newest(self) -> int:
        """Number of the newest form."""
        return len(self.moments) - 1

    @property
    def torn(self) -> range:
        """Numbers of the torn forms."""
        return range(len(self.moments), max(len(self.contents), len(self.moments)))

    def at(self, moment: int) -> int:
        """Number of the form that it had at ``moment``."""
        before = [number for number, since in enumerate(self.moments) if since <= moment]
        return before[-1] if before else 0


@attrs.frozen(slots=False)  # for what is computed once and kept
class CrashPoint:
    """One moment at which the power may fail."""

    number: int
    operation: str
    """The operation that was about to begin, or had just ended."""
    note: Any
    """What the disk's `note` returned at that moment."""
    moment: int
    root: int
    durable: Mapping[int, Mapping[str, int]] = attrs.field(repr=False)
    """Names of each directory when it was last flushed."""
    files: Mapping[int, FileState] = attrs.field(repr=False)
    changes: tuple[NameChange, ...] = attrs.field(repr=False)
    """Changes of names that were not flushed, in order."""

    # ------------------------------------------------------------------ what may be lost

    @cached_property
    def pieces(self) -> tuple[_Piece, ...]:
        """All that is uncertain; the changes of names come first, in order."""
        found = [_Piece(change.operation, (0, change.moment)) for change in self.changes]
        for node, name in sorted(self._reachable.items()):
            file = self.files[node]
            if len(file.sizes) > 1:
                moments, sizes = zip(*file.sizes, strict=True)
                found.append(_Piece(f"size of {name}", moments, sizes, node))
            for number, contents in sorted(file.pages.items()):
                if len(contents) > 1:
                    what = f"page {number} of {name}"
                    moments, forms = _forms(contents)
                    found.append(_Piece(what, moments, forms, node, number))
        return tuple(found)

    @cached_property
    def _reachable(self) -> dict[int, str]:
        """Files that have a name in some state, each with its newest name."""
        meant = [(name, node) for names in self.durable.values() for name, node in names.items()]
        for change in self.changes:
            meant += [(name, node) for _, name, node in change.names if node is not None]
        return {node: name for name, node in meant if node in self.files}

    def count(self) -> int:
        """Return an upper bound of the number of states."""
        total = 1
        for piece in self.pieces:
            total *= max(len(piece.moments), len(piece.contents))
        return total

    # ------------------------------------------------------------------ states

    def states(
        self, *, most: int = 64, random_count: int = 8, seed: int = 0
    ) -> Iterator[CrashState]:
        """Return states that a power cut may leave, each once, and the same ones in every run.

        Args:
            most: up to this many states all are tried. If there are more, these are tried: nothing
                lost; everything lost; each piece lost alone; each piece kept alone; torn pages one
                at a time; what a system leaves that writes in order; and a few random ones.
            random_count: number of random states.
            seed: seed of the random states; the point's number is added to it.
        """
        seen = set()
        total = self.count()
        chosen = self._all() if total <= most else self._selected(random_count, seed)
        for choices in chosen:
            choices = self._consistent(choices)
            if choices not in seen:
                seen.add(choices)
                yield CrashState(self, choices)

    def most_states(self, *, most: int = 64, random_count: int = 8) -> int:
        """Return an upper bound of the number of `states`, without making them; at least one."""
        total = self.count()
        if total <= most:
            return total
        moments = {moment for piece in self.pieces for moment in piece.moments}
        forms = sum(2 + len(piece.torn) for piece in self.pieces)
        return 3 + 3 * forms + 3 * len(moments) + random_count

    def newest(self) -> CrashState:
        """Return the state in which nothing is lost."""
        return CrashState(self, tuple(piece.newest for piece in self.pieces))

    def state(self, id: str) -> CrashState:  # noqa: A002 - the word that readers search for
        """Return the state with that `CrashState.id`.

        Raises:
            ValueError: this point has no such state; the run before it was not the same.
        """
        choices = tuple(map(_DIGITS.index, id.replace("-", "")))
        sizes = [max(len(piece.moments), len(piece.contents)) for piece in self.pieces]
        if len(choices) != len(sizes) or any(c >= s for c, s in zip(choices, sizes, strict=True)):
            raise ValueError(f"point {self.number} ({self.operation}) has no state {id!r}")
        return CrashState(self, choices)

    def _all(self) -> Iterator[tuple[int, ...]]:
        sizes = [max(len(piece.moments), len(piece.contents)) for piece in self.pieces]
        return itertools.product(*map(range, sizes))

    def _selected(self, random_count: int, seed: int) -> Iterator[tuple[int, ...]]:
        pieces = self.pieces
        newest = tuple(piece.newest for piece in pieces)
        durable = (0,) * len(pieces)
        # Names and sizes without bytes; and bytes without a name that leads to them.
        bare = tuple(0 if piece.page >= 0 else piece.newest for piece in pieces)
        yield from (newest, durable, bare)
        for number, piece in enumerate(pieces):
            for rest in (newest, bare, durable):
                for form in (0, piece.newest, *piece.torn):
                    yield (*rest[:number], form, *rest[number + 1 :])
        for moment in sorted({moment for piece in pieces for moment in piece.moments}):
            in_order = tuple(piece.at(moment) for piece in pieces)
            yield in_order
            # Names reach the disk independently of bytes, and often before them.
            yield tuple(
                form if number < len(self.changes) else newest[number]
                for number, form in enumerate(in_order)
            )
            yield tuple(
                newest[number] if number < len(self.changes) else form
                for number, form in enumerate(in_order)
            )
        chance = random.Random(f"{seed}/{self.number}")
        for _ in range(random_count):
            share = chance.choice((0.2, 0.5, 0.8))
            yield tuple(
                piece.newest if chance.random() < share else chance.randrange(piece.newest + 1)
                for piece in pieces
            )

    def _consistent(self, choices: tuple[int, ...]) -> tuple[int, ...]:
        """Drop changes of names that need a change which is lost."""
        kept = list(choices)
        for number, needed in self._needed:
            if kept[number] and not all(map(kept.__getitem__, needed)):
                kept[number] = 0
        return tuple(kept)

    @cached_property
    def _needed(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """The changes of names that need other changes: their number, and those they need."""
        needed = changes_needed(self.changes)
        return tuple((number, before) for number, before in enumerate(needed) if before)


@attrs.frozen
class CrashState:
    """One of the states that a power cut at `point` may leave."""

    point: CrashPoint
    choices: tuple[int, ...]

    @property
    def id(self) -> str:
        """The choices, one character for each: ``0`` is the durable form, others are later ones."""
        count = len(self.point.changes)
        names, bytes_ = self.choices[:count], self.choices[count:]
        return "-".join("".join(_DIGITS[each] for each in part) for part in (names, bytes_))

    def __str__(self) -> str:
        return f"{self.point.number}:{self.id}"

    def image(self) -> dict[str, bytes | None]:
        """Bytes of every file by its name below the disk's directory; None for a directory."""
        return {
            path: None if node is None else self.point.files[node].content(chosen)
            for path, node, chosen in self._entries()
        }

    def _entries(self) -> list[tuple[str, int | None, Mapping[int, Any]]]:
        """Path, file and its chosen forms of each name, in order; a directory has no file.

        Keys of the forms are pages, and -1 for the size; a missing key means the current form.
        """
        point = self.point
        directories = {number: dict(names) for number, names in point.durable.items()}
        for change, kept in zip(point.changes, self.choices, strict=False):
            if kept:
                change.apply(directories)
        chosen: dict[int, dict[int, Any]] = {}
        for piece, form in zip(point.pieces, self.choices, strict=True):
            if piece.file >= 0:
                chosen.setdefault(piece.file, {})[piece.page] = piece.contents[form]
        found: list[tuple[str, int | None, Mapping[int, Any]]] = []
        self._walk(point.root, "", directories, chosen, found)
        return found

    def _walk(
        self,
        directory: int,
        prefix: str,
        directories: Mapping[int, Mapping[str, int]],
        chosen: Mapping[int, Mapping[int, Any]],
        found: list[tuple[str, int | None, Mapping[int, Any]]],
    ) -> None:
        for name, node in sorted(directories.get(directory, {}).items()):
            path = f"{prefix}{name}"
            if node not in self.point.files:
                found.append((path, None, {}))
                self._walk(node, f"{path}/", directories, chosen, found)
            else:
                found.append((path, node, chosen.get(node, {})))

    def materialize(self, target: str | os.PathLike[str]) -> None:
        """Write the state as plain files to the directory ``target``, which is made."""
        os.makedirs(target)
        for name, data in self.image().items():
            path = os.path.join(target, name)
            if data is None:
                os.mkdir(path)
            else:
                with open(path, "wb") as file:
                    file.write(data)

    def fingerprint(self) -> bytes:
        """Return a value that is equal for states that look the same."""
        digest = hashlib.blake2b(digest_size=16)
        for name, node, chosen in self._entries():
            digest.update(f"{name}\0".encode())
            digest.update(b"-" if node is None else self.point.files[node].digest(chosen))
        return digest.digest()

    def describe(self) -> str:
        """Describe what is lost, with a line for each piece that is not in its newest form."""
        lines = [f"power cut {self.point.number}: {self.point.operation}"]
        for number, (piece, form) in enumerate(zip(self.point.pieces, self.choices, strict=True)):
            if form == piece.newest:
                continue
            if number < len(self.point.changes):
                lines.append(f"  not done: {piece.what}")
            elif form in piece.torn:
                lines.append(f"  torn ({form - piece.newest}): {piece.what}")
            else:
                lines.append(f"  form {form} of {piece.newest}: {piece.what}")
        return "\n".join(lines)


# --------------------------------------------------------------------------- contents


def _forms(
    contents: Sequence[tuple[int, bytes]],
) -> tuple[tuple[int, ...], tuple[bytes, ...]]:
    """Return the contents of a page to try, torn ones last, and the moment of each."""
    if len(contents) > _CONTENTS_MAX:
        step = (len(contents) - 1) / (_CONTENTS_MAX - 1)
        contents = [contents[round(number * step)] for number in range(_CONTENTS_MAX)]
    moments, pages = zip(*contents, strict=True)
    distinct = set(pages)
    torn = []
    for page in _torn(pages[0], pages[-1]):
        if page not in distinct:
            distinct.add(page)
            torn.append(page)
    return moments, (*pages, *torn)


def _torn(old: bytes, new: bytes) -> Iterable[bytes]:
    for cut in range(SECTOR_SIZE, PAGE_SIZE, SECTOR_SIZE):
        yield new[:cut] + old[cut:]
        yield old[:cut] + new[cut:]
