"""How many cases of a proof one run tries: one, a part of them, or all.

A proof tries crash states, faults or kills one by one. The variable ``REPUT_PROOFS`` says which
cases a run tries; without it a run tries all:

* ``one:SEED``: one case. SEED is a hexadecimal number, for example a commit: the same commit tries
  the same case again, and other commits try other cases.
* ``1/4``: the first of every four cases; ``2-4/4``: the other three.

``REPUT_SOAK=1`` lifts the limits that keep a proof short, and all cases are tried.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

SOAK_VARIABLE = "REPUT_SOAK"
PART_VARIABLE = "REPUT_PROOFS"

_T = TypeVar("_T")
_PARTS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?/([0-9]{1,4})")
_ONE = re.compile(r"one:([0-9a-f]{1,64})")


class _Choice(NamedTuple):
    """Which cases are tried."""

    seed: int | None
    """Chooses the one case, if a run tries only one."""

    first: int
    """The first part that is tried, counted from 1."""

    last: int
    """The last part that is tried."""

    part_count: int
    """How many parts there are."""


def is_soak() -> bool:
    """Whether ``REPUT_SOAK=1`` is set: tests may take hours."""
    return os.environ.get(SOAK_VARIABLE, "") not in ("", "0")


def is_whole() -> bool:
    """Whether this run tries all cases of a proof; only then it may expect a least number."""
    choice = _choice()
    return choice.seed is None and choice.part_count == 1


def is_one_case() -> bool:
    """Whether this run tries one case of each proof."""
    return _choice().seed is not None


def part(cases: Sequence[_T]) -> Sequence[_T]:
    """Choose the cases that this run tries, evenly spread over all.

    Returns:
        Some of ``cases``, in their order; at least one, if there are any.
    """
    choice = _choice()
    if choice.seed is not None:
        return [cases[choice.seed % len(cases)]] if cases else []
    if choice.part_count == 1:
        return cases
    length = len(cases)
    chosen = {
        at
        for number in range(choice.first, choice.last + 1)
        for at in range((number - 1) % max(length, 1), length, choice.part_count)
    }
    return [cases[at] for at in sorted(chosen)]


def part_of_count(whole: int) -> int:
    """Return how many of ``whole`` random cases this run tries; at least one."""
    choice = _choice()
    if choice.seed is not None:
        return 1
    return -(-whole * (choice.last - choice.first + 1) // choice.part_count)


def least_count(whole: int) -> int:
    """Return how many cases a run has tried at least, if a run of all cases tries ``whole``."""
    choice = _choice()
    return 1 if choice.seed is not None else max(whole // choice.part_count, 1)


def is_last_part() -> bool:
    """Whether this run tries a case that takes long and cannot be divided.

    A run of one case does not; of runs that try parts, the one with the last part does.
    """
    choice = _choice()
    return choice.seed is None and choice.last == choice.part_count


def _choice() -> _Choice:
    """Read which cases this run tries.

    Raises:
        ValueError: the variable has none of the three forms.
    """
    text = os.environ.get(PART_VARIABLE, "")
    if not text or is_soak():
        return _Choice(None, 1, 1, 1)
    if one := _ONE.fullmatch(text):
        # Neighbouring commits and short seeds spread over the cases, too.
        return _Choice(zlib.crc32(one[1].encode()), 1, 1, 1)
    found = _PARTS.fullmatch(text)
    if found is not None:
        first, last, count = int(found[1]), int(found[2] or found[1]), int(found[3])
        if 1 <= first <= last <= count:
            return _Choice(None, first, last, count)
    raise ValueError(
        f"{PART_VARIABLE}: one:SEED, NUMBER/COUNT or FIRST-LAST/COUNT expected, as one:6f2e, 1/4 or"
        f" 2-4/4; found {text!r}"
    )
