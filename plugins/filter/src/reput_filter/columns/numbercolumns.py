"""Read a column of texts as numbers, as Java would read each of them.

Nearly all numbers are a sign and a few digits: these are read for all rows at once, one character
position at a time. The rest (exponents, many digits, digits of other scripts, and texts that are
not numbers) is read one by one, each different text once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from reput.record import java_text, rows_by_width
from reput_filter.columns.javanumbers import (
    INT_MAX,
    EvaluationError,
    Kind,
    Number,
    parse_double,
    parse_integer,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

_DIGITS_MAX: Final = {Kind.INT: 18, Kind.LONG: 18, Kind.DOUBLE: 15}  # exact up to so many
_SIZE_MAX: Final = 24  # bytes of the longest text that is read with the others
_TENS: Final = 10.0 ** np.arange(_SIZE_MAX)  # exact up to 10**22; 15 digits need no more
_REMEMBERED: Final = 1 << 16
_NAN_BITS: Final = 0x7FF8 << 48
_ALL_BUT_SIGN: Final = (1 << 63) - 1


def parse(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    kind: Kind,
) -> tuple[npt.NDArray[np.int64], Mask]:
    """Return keys of ``(n,)`` texts, and which of them are numbers of that type.

    Keys have the order of the numbers: integers are their own keys, doubles' keys are in the order
    of Java.
    """
    keys = np.zeros(len(starts), np.int64)
    is_number = np.zeros(len(starts), np.bool_)
    is_left = sizes > _SIZE_MAX
    short = np.flatnonzero((sizes > 0) & ~is_left)
    for places, matrix in rows_by_width(window, starts[short], sizes[short]):
        rows = short[places]
        values, is_simple = _simple(matrix, sizes[rows], kind)
        keys[rows] = values
        is_number[rows] = is_simple
        is_left[rows] = ~is_simple
    _read_rows(window, starts, sizes, kind, np.flatnonzero(is_left), keys, is_number)
    return keys, is_number


def key_of(number: Number) -> int:
    """Return the key of a literal."""
    if number.kind is Kind.DOUBLE:
        return int(_double_keys(np.array([number.value], np.float64))[0])
    return int(number.value)


def _simple(
    matrix: npt.NDArray[np.uint8], sizes: npt.NDArray[np.int64], kind: Kind
) -> tuple[npt.NDArray[np.int64], Mask]:
    """Return keys of rows that are a sign, digits and at most a point; and which rows are."""
    count, longest, shortest = len(matrix), int(sizes.max()), int(sizes.min())
    columns = np.ascontiguousarray(matrix[:, :longest].T)
    is_negative = columns[0] == ord("-")
    is_signed = is_negative | (columns[0] == ord("+"))
    value = np.zeros(count, np.int64)
    point_at = np.full(count, -1, np.int8)
    points = np.zeros(count, np.int8)
    is_good = np.ones(count, np.bool_)
    small_sizes = sizes.astype(np.int8)
    for place in range(longest):
        digit = columns[place] - np.uint8(ord("0"))
        is_digit = digit < 10
        is_known = is_digit
        if kind is Kind.DOUBLE:
            is_point = columns[place] == ord(".")
            if place >= shortest:
                is_point &= small_sizes > place
            if is_point.any():
                point_at[is_point] = place
                points += is_point
                is_known = is_digit | is_point
        if place == 0:
            is_known = is_known | is_signed
        if place >= shortest:
            is_digit = is_digit & (small_sizes > place)
            is_known = is_known | (small_sizes <= place)
        is_good &= is_known
        np.multiply(value, 10, out=value, where=is_digit)
        np.add(value, digit, out=value, where=is_digit, casting="unsafe")
    digit_count = small_sizes - is_signed - points
    is_good &= (digit_count >= 1) & (digit_count <= _DIGITS_MAX[kind]) & (points <= 1)
    if kind is Kind.DOUBLE:
        fraction = np.where(points > 0, small_sizes - 1 - point_at, 0)
        doubles = value / _TENS[np.clip(fraction, 0, _SIZE_MAX - 1)]
        return _double_keys(np.where(is_negative, -doubles, doubles)), is_good
    np.negative(value, out=value, where=is_negative)
    if kind is Kind.INT:
        is_good &= (value <= INT_MAX) & (value >= -INT_MAX - 1)
    return value, is_good


def _double_keys(doubles: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return integers in the order of ``Double.compareTo``: -0.0 below 0.0, NaN above all."""
    bits = doubles.view(np.int64)
    keys = np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
    is_nan = np.isnan(doubles)
    if is_nan.any():
        keys[is_nan] = _NAN_BITS
    return keys


def _read_rows(
    window: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    kind: Kind,
    rows: npt.NDArray[np.int64],
    keys: npt.NDArray[np.int64],
    is_number: Mask,
) -> None:
    known: dict[bytes, int | float | None] = {}
    data = window.data
    good: list[int] = []
    numbers: list[int | float] = []
    places = zip(rows.tolist(), starts[rows].tolist(), sizes[rows].tolist(), strict=True)
    for row, start, size in places:
        text = bytes(data[start : start + size])
        try:
            number = known[text]
        except KeyError:
            if len(known) >= _REMEMBERED:
                known.clear()
            number = known[text] = _read(text, kind)
        if number is not None:
            good.append(row)
            numbers.append(number)
    if not good:
        return
    is_number[good] = True
    if kind is Kind.DOUBLE:
        keys[good] = _double_keys(np.array(numbers, np.float64))
    else:
        keys[good] = np.array(numbers, np.int64)


def _read(text: bytes, kind: Kind) -> int | float | None:
    decoded = java_text(text)
    try:
        return parse_double(decoded) if kind is Kind.DOUBLE else parse_integer(decoded, kind)
    except EvaluationError:
        return None
