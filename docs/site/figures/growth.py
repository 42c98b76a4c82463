"""What grows with a store: the kept results of ``python -m benchmarks --only 'growth.*'``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from paper import Drawing

_RESULTS: Final = Path(__file__).resolve().parents[3] / "benchmarks" / "results"
_NAMES: Final = ("growth", "growth-members", "growth-ends")
"""Kept results; rows of a later one replace those of the same label."""
_COLUMNS: Final = 3
_WIDTH, _HEIGHT = 268, 214
_LEFT, _TOP, _MARGIN = 44, 62, 12
"""Place of the axes in a panel, and the edge of the drawing, pixels."""
_DECADE: Final = 20
"""Pixels of a factor of ten of times; sizes have twice as many."""
_DECADES: Final = 6
_KINDS: Final = ("log", "plugin", "mark")
_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


class Curve(NamedTuple):
    """Processor time of one kind of work."""

    subject: str
    """What grows."""
    work: str
    points: list[tuple[int, float]]
    """Size, and seconds for an item or a call."""
    private: float
    """Bytes of memory for each at the largest size."""


def curves(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Curve]]:
    """Return the curves by subject, from rows of a kept result."""
    found: dict[str, list[Curve]] = {}
    for row in rows:
        subject, _, rest = row["label"].partition(": ")
        work = rest.rsplit(", ", 1)[0]
        size, seconds = row["facts"]["size"], row["cpu_per_item"]
        of = found.setdefault(subject, [])
        known = next((curve for curve in of if curve.work == work), Curve(subject, work, [], 0.0))
        points = [*known.points, *([(size, seconds)] if seconds > 0 else [])]
        curve = Curve(subject, work, sorted(points), row["facts"]["private"] / size)
        found[subject] = [curve if each is known else each for each in of]
        if known not in of:
            found[subject].append(curve)
    return found


def draw(rows: Sequence[Mapping[str, Any]] | None = None) -> Drawing:
    """Draw a panel for each subject; a factor of ten is as high, and as wide, in all of them."""
    if rows is None:
        texts = [(_RESULTS / f"{name}.json").read_text(encoding="utf-8") for name in _NAMES]
        rows = [*{row["label"]: row for text in texts for row in json.loads(text)["rows"]}.values()]
    found = curves(rows)
    height = -(-len(found) // _COLUMNS) * _HEIGHT + 2 * _MARGIN
    page = Drawing(
        "growth",
        _COLUMNS * _WIDTH + 2 * _MARGIN,
        height,
        "What grows with a store",
        "Processor time for one item or call by the size of what grows. "
        + " ".join(_in_words(curve) for each in found.values() for curve in each),
    )
    for number, (subject, each) in enumerate(found.items()):
        row, column = divmod(number, _COLUMNS)
        _panel(page, _MARGIN + column * _WIDTH, _MARGIN + row * _HEIGHT, subject, each)
    return page


def _in_words(curve: Curve) -> str:
    points = ", ".join(f"{size:,}: {_time(seconds)}" for size, seconds in curve.points)
    return f"{curve.subject}, {curve.work}: {points}."


def _panel(page: Drawing, x: float, y: float, subject: str, found: Sequence[Curve]) -> None:
    times = [seconds for curve in found for _, seconds in curve.points]
    sizes = [size for curve in found for size, _ in curve.points]
    floor = max(math.floor(math.log10(max(times))) + 1 - _DECADES, -9)
    start = math.floor(math.log10(min(sizes)))
    end = math.ceil(math.log10(max(sizes)))
    private = max(curve.private for curve in found)
    page.text(x + 4, y + 12, subject, "strong", 13, "start")
    if private >= 1:
        text = f"{_bytes(private)} each"
        page.text(x + _WIDTH - 16, y + 12, text, "soft", 11, "end")
    bottom = y + _TOP + _DECADES * _DECADE

    def place(size: float, seconds: float) -> tuple[float, float]:
        across = x + _LEFT + (math.log10(size) - start) * 2 * _DECADE
        up = max(math.log10(seconds) - floor, 0.0)
        return round(across, 1), round(bottom - up * _DECADE, 1)

    for power in range(floor, floor + _DECADES + 1, 3):
        level = place(10**start, 10**power)[1]
        right = x + _LEFT + (end - start) * 2 * _DECADE
        page.way([(x + _LEFT, level), (right, level)], head=False, dashed=True)
        page.text(x + _LEFT - 4, level + 4, _time(10**power), "soft", 10, "end")
    for power in range(start, end + 1):
        page.text(place(10**power, 10**floor)[0], bottom + 13, _count(10**power), "soft", 10)
    for number, (curve, kind) in enumerate(zip(found, _KINDS, strict=False)):
        line = y + 26 + number * 13
        page.way([(x + 6, line - 3), (x + 24, line - 3)], kind, head=False)
        text = f"{curve.work}: {_time(curve.points[-1][1])}"
        page.text(x + 30, line, text, "soft", 10.5, "start")
        page.way([place(size, seconds) for size, seconds in curve.points], kind, head=False)


def _time(seconds: float) -> str:
    scale, unit = next((each for each in _UNITS if seconds >= each[0] * 0.999), _UNITS[-1])
    return f"{_digits(seconds / scale)} {unit}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 or value == round(value) else f"{value:.1f}"


def _bytes(size: float) -> str:
    for scale, unit in ((1e6, "MB"), (1e3, "kB")):
        if size >= scale:
            return f"{_digits(size / scale)} {unit}"
    return f"{size:.0f} B"


def _count(size: int) -> str:
    for scale, unit in ((10**6, "M"), (10**3, "k")):
        if size >= scale:
            return f"{size // scale} {unit}"
    return str(size)
