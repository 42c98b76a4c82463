"""From what an author returns for a batch to rows: checked, typed, and put together by key.

A column is an array, a `reput.record.TextColumn`, a list, one value for all rows, or a pair
``(codes, names)`` such as ``(batch.topic_code, batch.topics)``. Numbers are put together in numpy;
Python objects are made only of what goes into the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reput.record import TextColumn, java_text
from reput_table.distincttexts import distinct_texts

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_table.schema import Schema

Rows: TypeAlias = Mapping[str, Any]
"""Columns by name; see this module."""

_Coded: TypeAlias = "tuple[npt.NDArray[np.int64], list[Any]]"
"""The index of each row's value, and the values."""

_EMPTY: dict[type, Any] = {str: "", bytes: b""}
_DENSE = 1 << 16  # so many keys are counted without sorting


def plain_rows(schema: Schema, given: Any, count: int) -> list[tuple[Any, ...]]:
    """Return the rows of a table without a key.

    Args:
        schema: the table's columns.
        given: what the author returned.
        count: messages of the batch; how many rows there are if each column is one value.

    Raises:
        ValueError: a column is missing or unknown, or columns have several lengths.
        TypeError: a column's values are not of its type.
    """
    columns, length = _columns(schema, given, count)
    lists = [_listed(name, columns[name], kind, length) for name, kind in schema.types.items()]
    return list(zip(*lists, strict=True))


def grouped_rows(
    schema: Schema, given: Any, count: int
) -> Iterator[tuple[tuple[Any, ...], tuple[int | float, ...]]]:
    """Yield key and aggregates of each key that occurs; see `plain_rows`."""
    columns, length = _columns(schema, given, count)
    if not length:
        return
    coded = [_coded(name, columns[name], kind, length) for name, kind in schema.key.items()]
    group_of, members = _groups([codes for codes, _ in coded], [len(names) for _, names in coded])
    keys = [
        [names[code] for code in codes[members].tolist()]  # the code of any row of the group
        for codes, names in coded
    ]
    values: list[Sequence[int | float]] = []
    for name in schema.sums:
        array = _numbers(name, columns[name], int, length)
        sums = np.zeros(len(members), np.int64)
        np.add.at(sums, group_of, array)
        values.append(sums.tolist())
    for chosen, reduce in ((schema.least, np.minimum), (schema.greatest, np.maximum)):
        for name, kind in chosen.items():
            array = _numbers(name, columns[name], kind, length)
            best = array[members].copy()
            reduce.at(best, group_of, array)
            values.append(best.tolist())
    nothing: list[tuple[int | float, ...]] = [()] * len(members)
    yield from zip(
        zip(*keys, strict=True), zip(*values, strict=True) if values else nothing, strict=True
    )


def _columns(schema: Schema, given: Any, count: int) -> tuple[dict[str, Any], int]:
    """Return the columns by name, and the number of rows."""
    if hasattr(given, "to_pydict"):  # an Arrow table or batch
        given = given.to_pydict()
    if not isinstance(given, Mapping):
        raise TypeError(f"rows() returned {type(given).__name__}, not columns by name")
    if given.keys() != schema.types.keys():
        raise ValueError(
            f"rows() returned the columns {', '.join(map(str, given))}; "
            f"expected: {', '.join(schema.types)}"
        )
    lengths = {name: _length(value) for name, value in given.items()}
    known = {length for length in lengths.values() if length is not None}
    if len(known) > 1:
        raise ValueError(f"rows() returned columns of several lengths: {lengths}")
    return dict(given), known.pop() if known else count


def _length(value: Any) -> int | None:
    if isinstance(value, tuple):
        value = _pair(value)[0]
    if isinstance(value, np.ndarray):
        return len(value) if value.ndim else None
    return len(value) if isinstance(value, (TextColumn, list)) else None


def _pair(value: tuple[Any, ...]) -> _Coded:
    if len(value) != 2 or not isinstance(value[0], np.ndarray):
        raise TypeError("a tuple is a column of codes and the sequence of their names")
    return value[0].astype(np.int64), list(value[1])


# --------------------------------------------------------------------------- values of one column


def _numbers(name: str, value: Any, kind: type, length: int) -> npt.NDArray[Any]:
    """Return a ``(length,)`` int64 or float64 array.

    Raises:
        TypeError: a value is not a number of that kind, or is missing.
    """
    array = np.asarray(value)
    kinds = "iub" if kind is int else "iubf"
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in kinds:
        raise TypeError(f"column {name}: numbers of type {kind.__name__} expected, not {array!r}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise TypeError(f"column {name}: {int(array.max())} does not fit into 64 bits with a sign")
    array = array.astype(np.int64 if kind is int else np.float64)
    if kind is float and np.isnan(array).any():
        raise TypeError(f"column {name}: NaN has no place in an order")
    return np.broadcast_to(array, (length,))


def _listed(name: str, value: Any, kind: type, length: int) -> list[Any]:
    """Return a column as a list of values of its type, or None."""
    if isinstance(value, tuple):
        codes, names = _pair(value)
        found = _checked(name, names, kind)
        return [found[code] for code in codes.tolist()]
    if isinstance(value, TextColumn):
        return _texts(name, value, kind)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iubf" and kind in (int, float):
        if kind is float:
            floats = value.astype(np.float64)
            return [None if each != each else each for each in floats.tolist()]
        return list(_numbers(name, value, kind, length).tolist())
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list):
        return _checked(name, [value], kind) * length
    return _checked(name, value, kind)


def _texts(name: str, column: TextColumn, kind: type) -> list[Any]:
    if kind not in _EMPTY:
        raise TypeError(f"column {name}: texts cannot be converted to {kind.__name__}")
    found = column.as_bytes()
    if kind is bytes:
        return found
    return [None if each is None else java_text(each) for each in found]


def _checked(name: str, values: Sequence[Any], kind: type) -> list[Any]:
    """Return Python values that are of ``kind`` or None."""
    types = set(map(type, values))
    if types - {kind, type(None)}:
        values = [each.item() if isinstance(each, np.generic) else each for each in values]
        if kind is float:
            values = [float(each) if type(each) is int else each for each in values]
        if kind is int:
            values = [int(each) if type(each) is bool else each for each in values]
        types = set(map(type, values))
    if found := types - {kind, type(None)}:
        names = ", ".join(sorted(each.__name__ for each in found))
        raise TypeError(f"column {name}: values of {kind.__name__} expected, not {names}")
    if kind is float:
        return [None if each != each else each for each in values]
    # One look at all texts of a column, as nearly all of them are plain.
    if kind is str and not (types == {str} and "".join(values).isascii()):
        return [None if each is None else _storable(each) for each in values]
    return list(values)


def _storable(text: str) -> str:
    """Return ``text`` without the halves of surrogates, which have no UTF-8."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


# --------------------------------------------------------------------------- groups


def _coded(name: str, value: Any, kind: type, length: int) -> _Coded:
    """Return a column of a key as codes; a missing text is an empty one."""
    if isinstance(value, tuple):
        codes, names = _pair(value)
        return codes, _filled(name, _checked(name, names, kind), kind)
    if isinstance(value, TextColumn) and kind in _EMPTY:
        codes, found = distinct_texts(value)
        empty = _EMPTY[kind]
        texts = [
            empty if each is None else each if kind is bytes else java_text(each) for each in found
        ]
        return codes, texts
    if isinstance(value, np.ndarray) and value.dtype.kind in "iub" and kind is int:
        return _coded_numbers(_numbers(name, value, kind, length))
    values = _filled(name, _listed(name, value, kind, length), kind)
    if not isinstance(value, (list, np.ndarray)):
        return np.zeros(length, np.int64), values[:1]
    places: dict[Any, int] = {}
    codes = np.array([places.setdefault(each, len(places)) for each in values], np.int64)
    return codes, list(places)


def _filled(name: str, values: list[Any], kind: type) -> list[Any]:
    if None not in values:
        return values
    if kind not in _EMPTY:
        raise TypeError(f"column {name}: a number of a key is missing")
    return [_EMPTY[kind] if each is None else each for each in values]


def _coded_numbers(numbers: npt.NDArray[np.int64]) -> _Coded:
    low, high = int(numbers.min()), int(numbers.max())
    if high - low < _DENSE:
        return numbers - low, list(range(low, high + 1))
    found, codes = np.unique(numbers, return_inverse=True)
    return codes.reshape(-1), found.tolist()


def _groups(
    columns: Sequence[npt.NDArray[np.int64]], sizes: Sequence[int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the group of each row, and one row of each group."""
    total, count = columns[0], sizes[0]
    for codes, size in zip(columns[1:], sizes[1:], strict=True):
        if count * size >= 1 << 62:
            found, total = np.unique(total, return_inverse=True)
            total, count = total.reshape(-1), len(found)
        total, count = total * size + codes, count * size
    if count <= _DENSE:
        member = np.full(count, -1, np.int64)
        member[total] = np.arange(len(total))
        present = np.flatnonzero(member >= 0)
        number = np.zeros(count, np.int64)
        number[present] = np.arange(len(present))
        return number[total], member[present]
    _, members, group_of = np.unique(total, return_index=True, return_inverse=True)
    return group_of.reshape(-1), members
