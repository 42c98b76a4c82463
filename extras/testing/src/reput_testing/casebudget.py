"""How many cases of a proof one run tries: a part of them, or all.

A proof tries crash states, faults or kills one by one. ``REPUT_PROOFS=1/4`` has this run
try the first of every four cases and ``REPUT_PROOFS=2-4/4`` the other three, so that two
environments of the matrix together try each case once; without the variable a run tries all.
``REPUT_SOAK=1`` lifts the limits that keep a proof short, and all cases are tried.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["is_last_part", "is_soak", "part", "part_count", "part_of_count"]

SOAK_VARIABLE = "REPUT_SOAK"
PART_VARIABLE = "REPUT_PROOFS"

_T = TypeVar("_T")
_PARTS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?/([0-9]{1,4})")


def is_soak() -> bool:
    """Whether ``REPUT_SOAK=1`` is set: tests may take hours."""
    return os.environ.get(SOAK_VARIABLE, "") not in ("", "0")


def part(cases: Sequence[_T]) -> Sequence[_T]:
    """Choose the cases that this run tries, evenly spread over all.

    Returns:
        Some of ``cases``, in their order; at least one, if there are any.
    """
    first, last, count = _numbers_and_count()
    if count == 1:
        return cases
    length = len(cases)
    chosen = {
        at
        for number in range(first, last + 1)
        for at in range((number - 1) % max(length, 1), length, count)
    }
    return [cases[at] for at in sorted(chosen)]


def part_count() -> int:
    """Return the number of parts into which proofs are divided; 1 if this run tries all."""
    return _numbers_and_count()[2]


def part_of_count(whole: int) -> int:
    """Return how many of ``whole`` random cases this run tries; at least one."""
    first, last, count = _numbers_and_count()
    return -(-whole * (last - first + 1) // count)


def is_last_part() -> bool:
    """Whether this run tries the last part, in which a case that cannot be divided is tried."""
    _, last, count = _numbers_and_count()
    return last == count


def _numbers_and_count() -> tuple[int, int, int]:
    """Read which parts this run tries: the first and the last, counted from 1, of how many.

    Raises:
        ValueError: the variable says neither ``NUMBER/COUNT`` nor ``FIRST-LAST/COUNT``.
    """
    text = os.environ.get(PART_VARIABLE, "")
    if not text or is_soak():
        return 1, 1, 1
    found = _PARTS.fullmatch(text)
    if found is not None:
        first, last, count = int(found[1]), int(found[2] or found[1]), int(found[3])
        if 1 <= first <= last <= count:
            return first, last, count
    raise ValueError(f"{PART_VARIABLE}: NUMBER/COUNT expected, as 1/4 or 2-4/4, found {text!r}")
