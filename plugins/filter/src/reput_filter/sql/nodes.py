"""The nodes of an expression: each has a value for one message, and codes for a column.

For one message a condition is True, False or None (null), or an `EvaluationError` where Java throws
an exception. For a column it is codes (`reput_filter.columns.truthcodes`). Here are the base class
and the values; `logic` and `comparisons` have the conditions.

Source: ``org.apache.rocketmq.filter.expression`` (5.3).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs
import numpy as np

from reput_filter.columns.javanumbers import EvaluationError, Number, Value
from reput_filter.columns.truthcodes import ERROR, NULL

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from reput_filter.columns.propertycolumns import PropertyColumns
    from reput_filter.columns.textcolumns import Texts
    from reput_filter.columns.truthcodes import Codes

    Column: TypeAlias = Codes | Texts | str | bool | Number | None


def _depth(node: Node) -> int:
    return 1 + max((child.depth for child in node.children), default=0)


@attrs.define(eq=False)
class Node(abc.ABC):
    """A node of an expression."""

    is_boolean = True
    """Whether it is a condition. If false, it is a value."""
    column: int = attrs.field(default=0, kw_only=True)
    """Column of its operator in the expression, from 0."""
    is_enclosed: bool = attrs.field(default=False, init=False)
    """Whether it stood in parentheses."""
    depth: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.depth = _depth(self)

    @property
    def children(self) -> tuple[Node, ...]:
        """Operands, from left to right."""
        return ()

    @abc.abstractmethod
    def value(self, properties: Mapping[str, str]) -> Value:
        """Return the value for one message.

        Raises:
            EvaluationError: Java throws an exception here.
        """

    @abc.abstractmethod
    def codes(self, columns: PropertyColumns) -> Column:
        """Return the value of each row: codes, or texts, or one value for all rows."""


@attrs.define(eq=False)
class Constant(Node):
    """A literal; TRUE, FALSE and NULL are conditions."""

    constant: Value

    @property
    def is_boolean(self) -> bool:  # type: ignore[override]
        """Whether it is TRUE, FALSE or NULL. If false, it is a number or a text."""
        return self.constant is None or isinstance(self.constant, bool)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return self.constant

    def codes(self, columns: PropertyColumns) -> Column:
        """See `Node.codes`."""
        return self.constant


@attrs.define(eq=False)
class Property(Node):
    """A property of the message."""

    is_boolean = False
    name: str

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return properties.get(self.name)

    def codes(self, columns: PropertyColumns) -> Column:
        """See `Node.codes`."""
        return columns.texts(self.name)


@attrs.define(eq=False)
class Negated(Node):
    """A sign before a value; a value that is not a number becomes null."""

    is_boolean = False
    operand: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return _negated(self.operand.value(properties))

    def codes(self, columns: PropertyColumns) -> Column:
        """See `Node.codes`."""
        found = self.operand.codes(columns)
        if isinstance(found, np.ndarray):  # a condition, which may be an exception
            return np.where(found == ERROR, ERROR, NULL).astype(np.uint8)
        return _negated(found) if isinstance(found, Number) else None


def _negated(value: Value) -> Number | None:
    return Number(value.kind, -value.value) if isinstance(value, Number) else None


def codes_of(node: Node, columns: PropertyColumns) -> Codes:
    """Return the codes of a condition, one byte for each row, also for a literal."""
    found: Any = node.codes(columns)
    if isinstance(found, np.ndarray):
        codes: Codes = found
        return codes
    return np.full(len(columns), NULL if found is None else int(found), np.uint8)


def truth(node: Node, properties: Mapping[str, str]) -> bool:
    """Return whether a condition selects the message, which it does only if it is TRUE."""
    try:
        return node.value(properties) is True
    except EvaluationError:
        return False
