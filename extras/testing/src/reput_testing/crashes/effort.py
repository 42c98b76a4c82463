"""How much of a proof one run goes through: its part of the cases, or all that there are.

A proof goes through crash states, faults or kills one by one. ``REPUT_PROOFS=1/2`` has this run
try the first of every two, so that two interpreters together try each once; without it a run
tries each.
``REPUT_SOAK=1`` lifts the limits that keep a proof short, and all parts are tried.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["is_soak", "part", "part_count", "part_of_count"]

SOAK_VARIABLE = "REPUT_SOAK"
PART_VARIABLE = "REPUT_PROOFS"

_T = TypeVar("_T")


def is_soak() -> bool:
    """Whether tests may take their time."""
    return os.environ.get(SOAK_VARIABLE, "") not in ("", "0")


def part(cases: Sequence[_T]) -> Sequence[_T]:
    """The cases that this run tries, evenly spread over all; at least one, if there are any."""
    number, count = _number_and_count()
    return cases[(number - 1) % max(len(cases), 1) :: count]


def part_count() -> int:
    """In how many parts proofs are tried; 1: this run tries all."""
    return _number_and_count()[1]


def part_of_count(count: int) -> int:
    """How many of ``count`` cases that are made at random this run tries; at least one."""
    return -(-count // part_count())


def _number_and_count() -> tuple[int, int]:
    """Which part, counted from 1, of how many.

    Raises:
        ValueError: the variable does not say ``NUMBER/COUNT``.
    """
    text = os.environ.get(PART_VARIABLE, "")
    if not text or is_soak():
        return 1, 1
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise ValueError(f"{PART_VARIABLE}: NUMBER/COUNT expected, as 1/2, found {text!r}")
    return int(number), int(count)
