"""`Case`, one piece of work to measure, and `Table`, in which results are compared."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from benchmarks.trial import Trial

BODIES = (100, 1024)
"""Sizes of bodies, bytes; every comparison is made for each."""


def body_name(body_size: int) -> str:
    """``100B``, ``1KiB``: part of a case's name."""
    return f"{body_size // 1024}KiB" if body_size % 1024 == 0 and body_size else f"{body_size}B"


@attrs.frozen
class Table:
    """Results that answer one question; for each body size, rows are compared with one of them."""

    title: str
    bytes_of: str = "bodies"
    """What the column of bytes a second counts: ``"bodies"`` or whole ``"records"``."""
    note: str = ""
    compares: bool = True
    """Whether rows do the same work, so that their ratio means something."""


@attrs.frozen(kw_only=True)
class Case:
    """One piece of work, run in a process of its own."""

    name: str
    table: Table
    run: Callable[[Trial], None]
    body_size: int = 0
    """Bytes; 0 if bodies do not matter."""
    needs: tuple[str, ...] = ("reput",)
    """Modules without which the case is skipped."""
    big_log: bool = False
    """Whether the case reads the large store that is generated once per run."""
    log_part: int = 1
    """By what the size of that store is divided."""
    repeats: bool = True
    """If false, one round is enough, whatever the number of rounds."""
    on_request: bool = False
    """Whether the case runs only if its whole name is given, as it takes long."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_T = TypeVar("_T", bound=_Named)


def select(cases: Sequence[_T], patterns: Sequence[str]) -> list[_T]:
    """Return what has a name that matches one of ``patterns`` (shell wildcards, or part of it)."""
    if not patterns:
        return list(cases)
    return [case for case in cases if any(_matches(case.name, pattern) for pattern in patterns)]


def without_unasked(cases: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """Return ``cases``, without those `Case.on_request` whose names are not in ``patterns``."""
    return [case for case in cases if not case.on_request or case.name in patterns]


def _matches(name: str, pattern: str) -> bool:
    if any(character in pattern for character in "*?["):
        return fnmatch.fnmatchcase(name, pattern)
    return pattern in name
