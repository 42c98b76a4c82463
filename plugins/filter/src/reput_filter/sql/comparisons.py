"""Conditions on values: ``=``, ``>`` and other orders, IN, CONTAINS and its relatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_filter.columns.javanumbers import Number, Value, equal, in_order
from reput_filter.columns.truthcodes import ERROR, FALSE, NEGATED, NULL
from reput_filter.sql.nodes import Node, Property

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_filter.columns.propertycolumns import PropertyColumns
    from reput_filter.columns.truthcodes import Codes


@attrs.define(eq=False)
class Equal(Node):
    """``=`` and ``<>``."""

    left: Node
    right: Node
    is_not: bool

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.left, self.right)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        found = equal(self.left.value(properties), self.right.value(properties))
        return None if found is None else found is not self.is_not

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        codes = columns.equal(self.left.codes(columns), self.right.codes(columns))
        return NEGATED[codes] if self.is_not else codes


@attrs.define(eq=False)
class Ordered(Node):
    """``>``, ``>=``, ``<`` and ``<=``."""

    operator: str
    left: Node
    right: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.left, self.right)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return in_order(self.operator, self.left.value(properties), self.right.value(properties))

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        return columns.ordered(self.operator, self.left.codes(columns), self.right.codes(columns))


@attrs.define(eq=False)
class Member(Node):
    """IN and NOT IN a list of texts."""

    operand: Property
    texts: tuple[str, ...]
    is_not: bool
    _known: frozenset[str] = attrs.field(
        init=False, default=attrs.Factory(lambda self: frozenset(self.texts), takes_self=True)
    )

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        found = self.operand.value(properties)
        return None if found is None else (found in self._known) is not self.is_not

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        column = columns.texts(self.operand.name)
        codes = column.is_one_of(self._known).astype(np.uint8)
        codes[column.missing] = NULL
        return NEGATED[codes] if self.is_not else codes


@attrs.define(eq=False)
class Search(Node):
    """CONTAINS, STARTSWITH, ENDSWITH and their NOT forms; FALSE for a value that is not a text."""

    word: str
    operand: Node
    text: str
    is_not: bool

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        found = self.operand.value(properties) if self.text else None
        if not isinstance(found, str):
            return False
        if self.word == "CONTAINS":
            holds = self.text in found
        elif self.word == "STARTSWITH":
            holds = found.startswith(self.text)
        else:
            holds = found.endswith(self.text)
        return holds is not self.is_not

    def codes(self, columns: PropertyColumns) -> Codes:
        """See `Node.codes`."""
        if not self.text:
            return np.zeros(len(columns), np.uint8)
        found = self.operand.codes(columns)
        if isinstance(found, np.ndarray):
            return np.where(found == ERROR, ERROR, FALSE).astype(np.uint8)
        if isinstance(found, str):
            return np.full(len(columns), self.value({}) is True, np.uint8)
        if found is None or isinstance(found, bool | Number):
            return np.zeros(len(columns), np.uint8)
        holds: npt.NDArray[np.bool_] = found.search(self.word, self.text) != self.is_not
        return (holds & ~found.missing).astype(np.uint8)
