"""`Expression`: a compiled SQL92 filter; and `compile`, which makes filters of both kinds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from reput_filter._codes import TRUE
from reput_filter._columns import Columns
from reput_filter._javavalues import Number, Value
from reput_filter._nodes import Constant, Node, Property, truth
from reput_filter._parser import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView
    from reput_filter.subscription import TagSubscription

__all__ = ["SQL92", "TAG", "Expression", "Undecided", "compile", "properties_of"]

SQL92 = "SQL92"
TAG = "TAG"


def compile(  # noqa: A001 - the word for it, as in `re`
    expression: str | None, kind: str | None = SQL92, *, strict: bool = False
) -> Expression | TagSubscription:
    """Make a filter; a plain object, which pickles and which knows no store.

    Args:
        expression: an SQL92 condition, or tags: ``"A || B"``, ``"*"``.
        kind: ``"SQL92"`` or ``"TAG"``; None and ``""`` mean tags, as for RocketMQ.
        strict: refuse what RocketMQ takes and nobody means (`reput_filter._traps` lists it).

    Raises:
        ExpressionError: no expression of that kind.
        ValueError: no such kind.
    """
    if kind in (None, "", TAG):
        from reput_filter.subscription import TagSubscription

        return TagSubscription.parse(expression)
    if kind != SQL92:
        raise ValueError(f'"{SQL92}" or "{TAG}" expected, not {kind!r}')
    return _compiled(expression or "", strict)


@functools.lru_cache(maxsize=256)  # a program has few, and asks for them with every read
def _compiled(text: str, strict: bool) -> Expression:
    return Expression(text, strict=strict)


class Undecided:
    """A filter of whose messages a queue's units say nothing."""

    __slots__ = ()

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: everything may match."""
        return np.ones(len(tags_codes), np.bool_)


class Expression(Undecided):
    """A condition on the properties of a message; immutable, thread-safe.

    Args:
        text: the condition.
        strict: see `compile`.

    Raises:
        ExpressionError: ``text`` is no condition.
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
        return _compiled, (self.text, self.strict)

    @property
    def properties(self) -> frozenset[str]:
        """Names of the properties that it looks at."""
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
        """What the condition is for a message with these properties.

        Raises:
            EvaluationError: as RocketMQ throws an exception; such a message is not selected.
        """
        found: Value = self._root.value(properties)
        assert not isinstance(found, str | Number)  # the root is a condition
        return found

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Whether it selects a message, or whichever message has these properties."""
        return truth(self._root, properties_of(message))

    # ------------------------------------------------------------------ many messages

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages of a batch it selects; the answers of `matches`, at once."""
        return np.equal(self.codes(Columns(len(batch), batch.text)), TRUE)

    def codes(self, columns: Columns) -> npt.NDArray[np.uint8]:
        """``(n,)``: what the condition is: 0 false, 1 true, 2 null, 3 an exception."""
        found = self._root.codes(columns)
        if isinstance(found, np.ndarray):
            return found
        assert isinstance(self._root, Constant)
        return np.full(len(columns), 2 if found is None else int(bool(found)), np.uint8)


def properties_of(message: MessageView | Mapping[str, str]) -> Mapping[str, str]:
    """The properties of a message, or the mapping that was given in its place."""
    return message if isinstance(message, Mapping) else message.properties
