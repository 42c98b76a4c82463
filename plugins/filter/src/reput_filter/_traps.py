"""What strict compiling refuses: expressions that RocketMQ takes, and that do not do what they say.

| trap | what RocketMQ makes of it |
|---|---|
| ``a = 1 b = 2``, ``a LIKE 'x%'``, ``a - b = 1`` | what cannot follow is ignored |
| ``a = 012`` | ``a = 0``, for the same reason |
| ``NOT a = 5`` | ``(NOT a) = 5``: NOT binds tighter than any comparison |
| ``a AND b = 1`` | never selects anything: a property is a text, which is never TRUE |
| ``-a > 5`` | null: only numbers that stand in the expression can be negated |
| ``TRUE = a`` | an exception wherever ``a`` is there; ``a = TRUE`` works |
| ``5 = TRUE``, ``'x' = (a > 1)`` | never what was meant: a condition has no number and no text |
| ``a CONTAINS ''`` | FALSE, always |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput_filter._nodes import (
    AsBoolean,
    Constant,
    Equal,
    IsNull,
    Negated,
    Node,
    Not,
    Property,
    Search,
)
from reput_filter.errors import ExpressionError

if TYPE_CHECKING:
    from reput_filter._lexer import Token

__all__ = ["check", "trailing"]


def check(expression: str, root: Node) -> None:
    """Refuse traps.

    Raises:
        ExpressionError: the leftmost one that was found.
    """
    found: list[tuple[int, str]] = []
    left = [root]
    while left:
        node = left.pop()
        left += node.children
        found += _traps_of(node)
    if found:
        column, reason = min(found)
        raise ExpressionError(expression, column, reason)


def _traps_of(node: Node) -> list[tuple[int, str]]:
    if isinstance(node, AsBoolean):
        name = node.operand.name
        return [
            (
                node.operand.column,
                f"the property {name} alone is never TRUE; write {name} = TRUE",
            )
        ]
    if isinstance(node, Negated) and not isinstance(node.operand, Constant | Negated):
        return [(node.column, "only a number that stands here can be negated; a property is null")]
    if isinstance(node, Search) and not node.text:
        return [(node.column, "an empty text is found in nothing")]
    if isinstance(node, Search) and not isinstance(node.operand, Property):
        return [(node.column, "only a property can be searched")]
    if isinstance(node, Equal | IsNull):
        first = node.children[0]
        if isinstance(first, Not) and not first.is_enclosed:
            return [(first.column, "NOT binds tighter than the comparison; write NOT (…)")]
    return _traps_of_types(node) if isinstance(node, Equal) else []


def _traps_of_types(node: Equal) -> list[tuple[int, str]]:
    left, right = node.left, node.right
    if left.is_boolean and not right.is_boolean:
        if isinstance(right, Property):
            return [(node.column, "a condition is compared with a property from the right only")]
        return [(node.column, "a condition is compared with a value")]
    if right.is_boolean and not left.is_boolean and not isinstance(left, Property):
        return [(node.column, "a value is compared with a condition")]
    return []


def trailing(expression: str, token: Token) -> str:
    """Why ``token`` cannot be where it is: behind the end of an expression."""
    word = token.text.upper()
    if word in ("LIKE", "ESCAPE"):
        return f"there is no {word}; CONTAINS, STARTSWITH and ENDSWITH are there"
    before = expression[token.column - 1 : token.column]
    if token.kind in ("integer", "float", "name") and before.isdigit():
        return "a number has no leading zeros and no such suffix"
    if token.kind in ("+", "-"):
        if expression[token.column : token.column + 2] == "--":
            return "a comment needs a line end behind it"
        return "there is no arithmetic"
    if token.kind == ")":
        return "no parenthesis is open here"
    return "nothing can follow here but AND, OR or a comparison"
