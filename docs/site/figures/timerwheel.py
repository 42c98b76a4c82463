"""The timer wheel: a ring of seconds, the timer log behind it, the parked messages behind that."""

from __future__ import annotations

import math

from paper import Drawing

_SLOTS = 16
_DUE = 3  # the slot that the picture follows


def _point(angle: float, radius: float) -> tuple[float, float]:
    return 172 + radius * math.cos(angle), 190 + radius * math.sin(angle)


def _slot(number: int) -> str:
    first = 2 * math.pi * number / _SLOTS - math.pi / 2
    last = first + 2 * math.pi / _SLOTS
    (ax, ay), (bx, by) = _point(first, 140), _point(last, 140)
    (cx, cy), (dx, dy) = _point(last, 84), _point(first, 84)
    return (
        f"M{ax:.1f} {ay:.1f} A140 140 0 0 1 {bx:.1f} {by:.1f} "
        f"L{cx:.1f} {cy:.1f} A84 84 0 0 0 {dx:.1f} {dy:.1f} z"
    )


def draw() -> Drawing:
    """The ring on the left; the chain of one slot through the timer log into the commit log."""
    page = Drawing(
        "timer-wheel",
        820,
        400,
        "A timer wheel, its timer log, and the parked messages",
        "A ring of slots, one per second. Slot T leads to its last record in the timer log, "
        "record 3, which leads to record 1 and that to record 0. Each record holds the physical "
        "offset of a parked message in the commit log.",
    )
    page.text(172, 28, "timerwheel: a slot per second, 32 bytes", "strong", 14)
    for number in range(_SLOTS):
        page.slice(_slot(number), "mark" if number == _DUE else "plain")
    for offset, label in ((-1, "T-1"), (0, "T"), (1, "T+1"), (2, "…")):
        angle = 2 * math.pi * (_DUE + offset + 0.5) / _SLOTS - math.pi / 2
        x, y = _point(angle, 112)
        page.text(x, y + 5, label, "strong" if offset == 0 else "soft", 13)
    page.text(172, 178, "1,209,600 slots", "soft", 13)
    page.text(172, 196, "two weeks", "soft", 13)
    page.text(172, 214, "then around again", "soft", 13)

    page.text(400, 70, "timerlog/: 52 bytes each, in the order of the log", "strong", 14, "start")
    page.text(400, 332, "commitlog/: the parked messages", "strong", 14, "start")
    lefts = [400 + number * 102 for number in range(4)]
    chained = (0, 1, 3)
    for number, left in enumerate(lefts):
        kind = "plugin" if number in chained else "plain"
        page.labelled(left, 112, 92, 52, (f"record {number}",), kind, 14)
    for number, left in enumerate(lefts):
        page.labelled(left, 254, 92, 52, ("message",), "log" if number in chained else "plain", 14)
        if number in chained:
            page.way([(left + 46, 164), (left + 46, 252)], "log")
    page.text(lefts[0] + 54, 240, "physical offset", "soft", 12, "start")
    x, y = _point(2 * math.pi * (_DUE + 0.5) / _SLOTS - math.pi / 2, 140)
    page.curve(f"M{x:.0f} {y:.0f} C 360 90, 640 40, {lefts[3] + 46} 108", "mark")
    page.text(352, 122, "last", "soft", 12)
    page.curve(
        f"M{lefts[3] + 20} 164 C {lefts[3] - 10} 206, {lefts[1] + 90} 206, {lefts[1] + 70} 168",
        "plugin",
    )
    page.curve(
        f"M{lefts[1] + 16} 164 C {lefts[1]} 188, {lefts[0] + 86} 188, {lefts[0] + 76} 168", "plugin"
    )
    page.text(lefts[2] + 46, 212, "previous", "soft", 12)
    page.text(
        410,
        380,
        "Never early, and late by less than one slot: T is delivered when it is over.",
        "soft",
        13,
    )
    return page
