"""`Expression`: a compiled SQL92 filter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from reput_filter.columns.javanumbers import Number, Value
from reput_filter.columns.propertycolumns import PropertyColumns
from reput_filter.columns.truthcodes import TRUE
from reput_filter.filterkinds import SQL92
from reput_filter.sql.nodes import Constant, Node, Property, truth
from reput_filter.sql.parser import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView


@functools.lru_cache(maxsize=256)  # a program has few conditions, and uses them for every read
def compiled(text: str, strict: bool) -> Expression:
    """Return the condition ``text``, from the cache if possible."""
    return Expression(text, strict=strict)


class Undecided:
    """A filter that cannot be decided by the units of a queue."""

    __slots__ = ()

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: True for every message."""
        return np.ones(len(tags_codes), np.bool_)


class Expression(Undecided):
    """A condition on the properties of a message; immutable, thread-safe.

    Args:
        text: the condition.
        strict: see `reput_filter.compile`.

    Raises:
        ExpressionError: ``text`` is not a condition.
    """

    __slots__ = ("_root", "strict", "text")

    kind = SQL92

    def __init__(self, text: str, *, strict: bool = False) -> None:
        self.text = text
        self.strict = strict
        self._root = parse(text, strict=strict)

    def __repr__(self) -> str:
        return f"<Expression {self.text!r}>"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return (self.text, self.strict) == (other.text, other.strict)

    def __hash__(self) -> int:
        return hash((self.text, self.strict))

    def __reduce__(self) -> tuple[Callable[..., Expression], tuple[Any, ...]]:
        # As text: compiled again in microseconds, and another version's tree is never read.
        return compiled, (self.text, self.strict)

    @property
    def properties(self) -> frozenset[str]:
        """Names of the properties that the condition uses."""
        return frozenset(node.name for node in self._nodes() if isinstance(node, Property))

    def _nodes(self) -> Sequence[Node]:
        found, left = [], [self._root]
        while left:
            node = left.pop()
            found.append(node)
            left += node.children
        return found

    # ------------------------------------------------------------------ one message

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return the value of the condition for a message with these properties.

        Raises:
            EvaluationError: RocketMQ throws an exception here; such a message is not selected.
        """
        found: Value = self._root.value(properties)
        assert not isinstance(found, str | Number)  # the root is a condition
        return found

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Return whether the condition selects a message, or one with these properties."""
        return truth(self._root, properties_of(message))

    # ------------------------------------------------------------------ many messages

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages of a batch it selects; the answers of `matches`."""
        return np.equal(self.codes(PropertyColumns(len(batch), batch.text)), TRUE)

    def codes(self, columns: PropertyColumns) -> npt.NDArray[np.uint8]:
        """Return ``(n,)`` values of the condition: 0 false, 1 true, 2 null, 3 an exception."""
        found = self._root.codes(columns)
        if isinstance(found, np.ndarray):
            return found
        assert isinstance(self._root, Constant)
        return np.full(len(columns), 2 if found is None else int(bool(found)), np.uint8)


def properties_of(message: MessageView | Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties of a message; a mapping is returned as it is."""
    return message if isinstance(message, Mapping) else message.properties
