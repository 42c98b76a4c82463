"""Compare columns of properties: all rows at once, with the answer that a single row would get."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_filter.columns import numbercolumns
from reput_filter.columns.javanumbers import EvaluationError, Kind, Number, Value, compare, in_order
from reput_filter.columns.textcolumns import Texts
from reput_filter.columns.truthcodes import ERROR, FALSE, NULL, TRUE

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import TextColumn
    from reput_filter.columns.truthcodes import Codes, Mask

_ORDERS: Final[dict[str, Callable[..., Mask]]] = {
    ">": np.greater,
    ">=": np.greater_equal,
    "<": np.less,
    "<=": np.less_equal,
}
_TURNED: Final = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@attrs.define(eq=False)
class PropertyColumns:
    """The properties of ``count`` messages; each is located at its first use."""

    count: int
    find: Callable[[str], TextColumn]
    _texts: dict[str, Texts] = attrs.field(init=False, factory=dict)
    _whole: PropertyColumns | None = attrs.field(init=False, default=None)
    _rows: npt.NDArray[np.int64] | None = attrs.field(init=False, default=None)

    def __len__(self) -> int:
        return self.count

    def texts(self, name: str) -> Texts:
        """Return the values of the property ``name``."""
        found = self._texts.get(name)
        if found is None:
            if self._whole is not None and self._rows is not None:
                found = self._whole.texts(name).take(self._rows)
            else:
                found = Texts(self.find(name))
            self._texts[name] = found
        return found

    def take(self, rows: npt.NDArray[np.int64]) -> PropertyColumns:
        """Return the columns of ``rows`` only."""
        taken = PropertyColumns(len(rows), self.find)
        taken._whole, taken._rows = self, rows
        return taken

    def equal(self, left: Codes | Texts | Value, right: Codes | Texts | Value) -> Codes:
        """Return the codes of ``left = right``."""
        missing, other_missing = self._missing(left), self._missing(right)
        result = self._equal_present(left, right)
        result = np.where(other_missing, FALSE, result)
        result = np.where(missing, np.where(other_missing, TRUE, NULL), result)
        return self._with_errors(result.astype(np.uint8), left, right)

    def ordered(
        self, operator: str, left: Codes | Texts | Value, right: Codes | Texts | Value
    ) -> Codes:
        """Return the codes of ``left > right`` and the other orders."""
        result = self._ordered_present(operator, left, right)
        result = np.where(self._missing(left) | self._missing(right), NULL, result)
        return self._with_errors(result.astype(np.uint8), left, right)

    def _equal_present(self, left: Codes | Texts | Value, right: Codes | Texts | Value) -> Codes:
        """Return the codes of rows in which both sides are present; any code elsewhere."""
        if isinstance(left, Texts):
            if isinstance(right, Texts):
                return left.equals_texts(right).astype(np.uint8)
            if isinstance(right, Number):
                return _by_keys(np.equal, left, right)
            if isinstance(right, str):
                return left.equals(right).astype(np.uint8)
            if right is None:
                return self._all(FALSE)
            return _codes(left.is_true() == self._truths(right))
        if isinstance(left, np.ndarray | bool):
            if isinstance(right, np.ndarray | bool):
                return _codes(self._truths(left) == self._truths(right))
            return self._all(ERROR if isinstance(right, Texts | str) else FALSE)
        if isinstance(right, Texts):
            if isinstance(left, Number):
                return _by_keys(np.equal, right, left)
            return self._all(FALSE) if left is None else right.equals(left).astype(np.uint8)
        if isinstance(right, np.ndarray):
            if isinstance(left, str):
                return _codes(self._truths(right) == (left.lower() == "true"))
            return self._all(FALSE)
        return self._all(_code(lambda: compare(left, right) == 0, left, right))  # type: ignore[arg-type]

    def _ordered_present(
        self, operator: str, left: Codes | Texts | Value, right: Codes | Texts | Value
    ) -> Codes:
        if isinstance(left, Texts) and isinstance(right, Texts):
            keys, is_number = left.numbers(Kind.DOUBLE)
            other_keys, is_other = right.numbers(Kind.DOUBLE)
            holds = _ORDERS[operator](keys, other_keys)
            return np.where(is_number & is_other, holds, ERROR).astype(np.uint8)
        if isinstance(left, Texts) and isinstance(right, Number):
            return _by_keys(_ORDERS[operator], left, right)
        if isinstance(left, Number) and isinstance(right, Texts):
            return _by_keys(_ORDERS[_TURNED[operator]], right, left)
        if isinstance(left, Number) and isinstance(right, Number):
            return self._all(int(in_order(operator, left, right) is True))
        return self._all(FALSE)  # one side is null in every row

    def _missing(self, side: Codes | Texts | Value) -> Mask:
        if isinstance(side, Texts):
            return side.missing
        if isinstance(side, np.ndarray):
            return np.equal(side, NULL)
        return np.full(self.count, side is None)

    def _truths(self, side: Codes | bool) -> Mask:
        if isinstance(side, np.ndarray):
            return np.equal(side, TRUE)
        return np.full(self.count, side)

    def _all(self, code: int) -> Codes:
        return np.full(self.count, code, np.uint8)

    @staticmethod
    def _with_errors(result: Codes, *sides: Codes | Texts | Value) -> Codes:
        for side in sides:
            if isinstance(side, np.ndarray):
                result[side == ERROR] = ERROR
        return result


def _codes(holds: Mask) -> Codes:
    return holds.astype(np.uint8)


def _by_keys(holds: Callable[..., Mask], texts: Texts, number: Number) -> Codes:
    keys, is_number = texts.numbers(number.kind)
    return np.where(is_number, holds(keys, numbercolumns.key_of(number)), ERROR).astype(np.uint8)


def _code(holds: Callable[[], bool], left: Value, right: Value) -> int:
    if left is None or right is None:
        return FALSE
    try:
        return int(holds())
    except EvaluationError:
        return ERROR
