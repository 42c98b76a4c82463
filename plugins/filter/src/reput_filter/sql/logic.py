"""Conditions on conditions: a bare property, NOT, AND, OR, IS NULL.

AND and OR evaluate their operands from left to right, and skip rows that are decided; this is
Java's short circuit, also where a later operand would have thrown an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_filter.columns.javanumbers import Number, Value
from reput_filter.columns.truthcodes import FALSE, NEGATED, NULL, NULLNESS, TRUE
from reput_filter.sql.nodes import Node, Property, codes_of

if TYPE_CHECKING:
    from reput_filter.columns.propertycolumns import PropertyColumns
    from reput_filter.columns.truthcodes import Codes

_FEW: Final = 2
"""Rows are skipped only if fewer than one in this many is undecided."""


@attrs.define(eq=False)
class AsBoolean(Node):
    """A bare property as a condition: null if missing, else FALSE, as its value is a text."""

    operand: Property

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return None if self.operand.value(properties) is None else False

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        missing = columns.texts(self.operand.name).missing
        return np.where(missing, NULL, FALSE).astype(np.uint8)


@attrs.define(eq=False)
class Not(Node):
    """NOT; null stays null."""

    operand: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        found = self.operand.value(properties)
        return None if found is None else not found

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        return NEGATED[codes_of(self.operand, columns)]


@attrs.define(eq=False)
class _Chain(Node):
    operands: tuple[Node, ...]
    _decisive = FALSE  # the value that decides, whatever follows it

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return self.operands

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        decisive, found = bool(self._decisive), not self._decisive
        unknown = False
        for operand in self.operands:
            each = operand.value(properties)
            if each is None:
                unknown = True
            elif each is decisive:
                return decisive
        return None if unknown else found

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        neutral = 1 - self._decisive
        result = codes_of(self.operands[0], columns)
        for operand in self.operands[1:]:
            is_open = (result == neutral) | (result == NULL)
            count = int(np.count_nonzero(is_open))
            if count == 0:
                break
            if count * _FEW < len(is_open):
                rows = np.flatnonzero(is_open)
                found = codes_of(operand, columns.take(rows))
                before = result[rows]
            else:
                rows = None
                found = codes_of(operand, columns)
                before = result
            # Null replaces the neutral value; any other value replaces both.
            changed = np.where(found == neutral, before, found)
            if rows is None:
                result = np.where(is_open, changed, result)
            else:
                result = result.copy()
                result[rows] = changed
        return result


@attrs.define(eq=False)
class AllOf(_Chain):
    """AND of two operands or more."""


@attrs.define(eq=False)
class AnyOf(_Chain):
    """OR of two operands or more."""

    _decisive = TRUE


@attrs.define(eq=False)
class IsNull(Node):
    """IS NULL and IS NOT NULL."""

    operand: Node
    is_not: bool

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return (self.operand.value(properties) is None) is not self.is_not

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        found = self.operand.codes(columns)
        if isinstance(found, np.ndarray):
            codes = NULLNESS[found]
        elif isinstance(found, str | bool | Number) or found is None:
            codes = np.full(len(columns), found is None, np.uint8)
        else:
            codes = found.missing.astype(np.uint8)
        return NEGATED[codes] if self.is_not else codes
