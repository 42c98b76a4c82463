"""The parts of an expression: each can say what it is for one message, and for a column of them.

For one message a condition is True, False or None (null), or an `EvaluationError` where Java
throws one. For a column it is *codes*: `FALSE`, `TRUE`, `NULL`, `ERROR`, a byte for each row. AND
and OR look at their operands from left to right and leave rows alone that are decided; that is
Java's short circuit, also where a later operand would have thrown.

Source: ``org.apache.rocketmq.filter.expression`` (5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput_filter._javavalues import (
    EvaluationError,
    Kind,
    Number,
    Value,
    compare,
    parse_double,
)

if TYPE_CHECKING:
    from typing import Any, TypeAlias

    import numpy.typing as npt

    from reput_filter._columns import Columns, Texts

    Codes: TypeAlias = npt.NDArray[np.uint8]
    Column: TypeAlias = Codes | Texts | str | bool | Number | None

__all__ = [
    "ERROR",
    "FALSE",
    "NULL",
    "TRUE",
    "AllOf",
    "AnyOf",
    "AsBoolean",
    "Constant",
    "Equal",
    "IsNull",
    "Member",
    "Negated",
    "Node",
    "Not",
    "Ordered",
    "Property",
    "Search",
]

FALSE: Final = 0
TRUE: Final = 1
NULL: Final = 2
ERROR: Final = 3

_NOT: Final = np.array([TRUE, FALSE, NULL, ERROR], np.uint8)
_NULLNESS: Final = np.array([FALSE, FALSE, TRUE, ERROR], np.uint8)
_FEW = 2  # an operand is computed for undecided rows only when they are less than one in so many


def _depth(node: Node) -> int:
    return 1 + max((child.depth for child in node.children), default=0)


@attrs.define(eq=False)
class Node:
    """A part of an expression."""

    is_boolean = True
    """Whether it is a condition, and no value."""
    column: int = attrs.field(default=0, kw_only=True)
    """Where it stands in the expression, from 0: the place of its operator."""
    is_enclosed: bool = attrs.field(default=False, init=False)
    """Whether it stood in parentheses."""
    depth: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.depth = _depth(self)

    @property
    def children(self) -> tuple[Node, ...]:
        """Its operands, from left to right."""
        return ()

    def value(self, properties: Mapping[str, str]) -> Value:
        """What it is for a message.

        Raises:
            EvaluationError: as Java throws.
        """
        raise NotImplementedError

    def codes(self, columns: Columns) -> Column:
        """What it is for each row: codes, or texts, or one value for all rows."""
        raise NotImplementedError


# --------------------------------------------------------------------------- values


@attrs.define(eq=False)
class Constant(Node):
    """A literal; TRUE, FALSE and NULL are conditions."""

    constant: Value

    @property
    def is_boolean(self) -> bool:  # type: ignore[override]
        """TRUE, FALSE and NULL are, numbers and texts are not."""
        return self.constant is None or isinstance(self.constant, bool)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return self.constant

    def codes(self, columns: Columns) -> Column:
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

    def codes(self, columns: Columns) -> Column:
        """See `Node.codes`."""
        return columns.texts(self.name)


@attrs.define(eq=False)
class Negated(Node):
    """A sign in front of a value; whatever is no number becomes null."""

    is_boolean = False
    operand: Node

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return _negated(self.operand.value(properties))

    def codes(self, columns: Columns) -> Column:
        """See `Node.codes`."""
        found = self.operand.codes(columns)
        if isinstance(found, np.ndarray):  # a condition, which may have thrown
            return np.where(found == ERROR, ERROR, NULL).astype(np.uint8)
        return _negated(found) if isinstance(found, Number) else None


def _negated(value: Value) -> Number | None:
    return Number(value.kind, -value.value) if isinstance(value, Number) else None


# --------------------------------------------------------------------------- logic


@attrs.define(eq=False)
class AsBoolean(Node):
    """A bare property as a condition: null when missing, else FALSE, as it is a text."""

    operand: Property

    @property
    def children(self) -> tuple[Node, ...]:
        """See `Node.children`."""
        return (self.operand,)

    def value(self, properties: Mapping[str, str]) -> Value:
        """See `Node.value`."""
        return None if self.operand.value(properties) is None else False

    def codes(self, columns: Columns) -> Codes:
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

    def codes(self, columns: Columns) -> Codes:
        """See `Node.codes`."""
        return _NOT[_spread(self.operand, columns)]


@attrs.define(eq=False)
class _Chain(Node):
    operands: tuple[Node, ...]
    _decisive = FALSE  # the value that decides, whatever comes behind it

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

    def codes(self, columns: Columns) -> Codes:
        """See `Node.codes`."""
        neutral = 1 - self._decisive
        result = _spread(self.operands[0], columns)
        for operand in self.operands[1:]:
            is_open = (result == neutral) | (result == NULL)
            count = int(np.count_nonzero(is_open))
            if count == 0:
                break
            if count * _FEW < len(is_open):
                rows = np.flatnonzero(is_open)
                found = _spread(operand, columns.take(rows))
                before = result[rows]
            else:
                rows = None
                found = _spread(operand, columns)
                before = result
            # Null takes the place of the neutral value; anything else, the place of both.
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

    def codes(self, columns: Columns) -> Codes:
        """See `Node.codes`."""
        found = self.operand.codes(columns)
        if isinstance(found, np.ndarray):
            codes = _NULLNESS[found]
        elif isinstance(found, str | bool | Number) or found is None:
            codes = np.full(len(columns), found is None, np.uint8)
        else:
            codes = found.missing.astype(np.uint8)
        return _NOT[codes] if self.is_not else codes


# --------------------------------------------------------------------------- comparisons


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
        found = _equal(self.left.value(properties), self.right.value(properties))
        return None if found is None else found is not self.is_not

    def codes(self, columns: Columns) -> Codes:
        """See `Node.codes`."""
        codes = columns.equal(self.left.codes(columns), self.right.codes(columns))
        return _NOT[codes] if self.is_not else codes


def _equal(left: Value, right: Value) -> bool | None:
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    return compare(left, right) == 0


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

    def codes(self, columns: Columns) -> Codes:
        """See `Node.codes`."""
        return columns.ordered(self.operator, self.left.codes(columns), self.right.codes(columns))


_ORDERS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


def in_order(operator: str, left: Value, right: Value) -> bool | None:
    """``left`` and ``right`` compared; two texts are compared as doubles."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left = Number(Kind.DOUBLE, parse_double(left))
        right = Number(Kind.DOUBLE, parse_double(right))
    return _ORDERS[operator](compare(left, right))


# --------------------------------------------------------------------------- texts


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

    def codes(self, columns: Columns) -> Codes:
        """See `Node.codes`."""
        column = columns.texts(self.operand.name)
        codes = column.is_one_of(self._known).astype(np.uint8)
        codes[column.missing] = NULL
        return _NOT[codes] if self.is_not else codes


@attrs.define(eq=False)
class Search(Node):
    """CONTAINS, STARTSWITH, ENDSWITH and their NOT forms; FALSE for whatever is no text."""

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

    def codes(self, columns: Columns) -> Codes:
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


def _spread(node: Node, columns: Columns) -> Codes:
    """A condition's codes, a byte for each row, also of a literal."""
    found: Any = node.codes(columns)
    if isinstance(found, np.ndarray):
        codes: Codes = found
        return codes
    return np.full(len(columns), NULL if found is None else int(found), np.uint8)


def truth(node: Node, properties: Mapping[str, str]) -> bool:
    """Whether a condition selects the message: it does when it is TRUE, and only then."""
    try:
        return node.value(properties) is True
    except EvaluationError:
        return False
