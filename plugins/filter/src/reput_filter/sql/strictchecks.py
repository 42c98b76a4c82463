"""What strict compiling refuses: expressions that RocketMQ takes but that do not do what they say.

| trap | what RocketMQ makes of it |
|---|---|
| ``a = 1 b = 2``, ``a LIKE 'x%'``, ``a - b = 1`` | what cannot follow is ignored |
| ``a = 012`` | ``a = 0``, for the same reason |
| ``NOT a = 5`` | ``(NOT a) = 5``: NOT binds tighter than any comparison |
| ``NOT a CONTAINS 'x'`` | FALSE, always, for the same reason; ``a NOT CONTAINS 'x'`` works |
| ``a NOT BETWEEN 5 AND 1`` | TRUE for every number; only BETWEEN is checked |
| ``NULL``, ``a = 1 OR NULL`` | NULL as a condition selects nothing |
| ``a AND b = 1`` | never selects anything: a property is a text, which is never TRUE |
| ``-a > 5`` | null: only numbers that stand in the expression can be negated |
| ``TRUE = a`` | an exception wherever ``a`` is there; ``a = TRUE`` works |
| ``5 = TRUE``, ``'x' = (a > 1)`` | never what was meant: a condition has no number and no text |
| ``a CONTAINS ''`` | FALSE, always |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from reput_filter.columns.javanumbers import Number
from reput_filter.errors import ExpressionError
from reput_filter.sql.comparisons import Equal, Search
from reput_filter.sql.logic import AllOf, AnyOf, AsBoolean, IsNull, Not
from reput_filter.sql.nodes import Constant, Negated, Node, Property

if TYPE_CHECKING:
    from reput_filter.sql.lexer import Token

BARE_NOT: Final = "NOT binds tighter than the comparison; write NOT (…)"


def check(expression: str, root: Node) -> None:
    """Refuse an expression with a trap.

    Raises:
        ExpressionError: names the leftmost trap found.
    """
    found: list[tuple[int, str]] = []
    if isinstance(root, Constant) and root.constant is None:
        found.append((root.column, "NULL is a condition that selects nothing"))
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
        by_tag = f"select the tag {name} by the kind TAG (--tag {name})"
        text = f"the property {name} alone is never TRUE; write {name} = TRUE, or {by_tag}"
        return [(node.operand.column, text)]
    if isinstance(node, Negated) and not _is_number(node.operand):
        return [(node.column, "only a number that stands here can be negated; a property is null")]
    if isinstance(node, Equal | IsNull | Search) and is_bare_not(node.children[0]):
        return [(node.children[0].column, BARE_NOT)]
    if isinstance(node, Search) and not node.text:
        return [(node.column, "an empty text is found in nothing")]
    if isinstance(node, Search) and not isinstance(node.operand, Property):
        return [(node.column, "only a property can be searched")]
    if isinstance(node, AllOf | AnyOf | Not):
        return [
            (each.column, "NULL is a condition that selects nothing")
            for each in node.children
            if isinstance(each, Constant) and each.constant is None
        ]
    return _traps_of_types(node) if isinstance(node, Equal) else []


def is_bare_not(node: Node) -> bool:
    """Return whether it is a NOT that was probably meant for all that follows it."""
    return isinstance(node, Not) and not node.is_enclosed


def _is_number(node: Node) -> bool:
    if isinstance(node, Negated):
        return True  # a trap of its own, found at that node
    return isinstance(node, Constant) and isinstance(node.constant, Number)


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
    """Return why ``token`` cannot be where it is: after the end of an expression."""
    word = token.text.upper()
    if word in ("LIKE", "ESCAPE"):
        return f"there is no {word}; CONTAINS, STARTSWITH and ENDSWITH are there"
    before = expression[token.column - 1 : token.column]
    if token.kind in ("integer", "float", "name") and before.isdigit():
        return "a number has no leading zeros and no such suffix"
    if token.kind in ("+", "-"):
        if expression[token.column : token.column + 2] == "--":
            return "a comment needs a line end after it"
        return "there is no arithmetic"
    if token.kind == ")":
        return "no parenthesis is open here"
    return "nothing can follow here but AND, OR or a comparison"
