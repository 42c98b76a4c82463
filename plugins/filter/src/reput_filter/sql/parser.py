"""Parse an expression with the grammar, the precedence and the checks of RocketMQ.

This is a parser of its own, without a library: the language is defined by what RocketMQ's generated
parser does, not by a grammar. That parser stops at the first token that cannot follow, looks ahead
no further than that token, and ignores the rest; a parser generator would have to be kept from
looking further. Four functions that call each other are shorter, report the column of an error in
words, count their own depth, and cost nothing when a store is opened.

Source: ``SelectorParser.jj`` (5.3) and the factories of ``org.apache.rocketmq.filter.expression``.
"""

from __future__ import annotations

import math
from typing import Final

from reput_filter.columns.javanumbers import INT_MAX, LONG_MAX, Kind, Number, compare
from reput_filter.errors import ExpressionError
from reput_filter.sql import strictchecks
from reput_filter.sql.comparisons import Equal, Member, Ordered, Search
from reput_filter.sql.lexer import END, Token, tokens
from reput_filter.sql.logic import AllOf, AnyOf, AsBoolean, IsNull, Not
from reput_filter.sql.nodes import Constant, Negated, Node, Property

EXPRESSION_SIZE_MAX: Final = 1 << 16
"""Characters; RocketMQ has no limit, and its clients send a few hundred."""
DEPTH_MAX: Final = 64
"""Maximum nesting of parentheses, signs and chains of comparisons."""

_ORDERS: Final = frozenset([">", ">=", "<", "<="])
_SEARCHES: Final = frozenset(["CONTAINS", "STARTSWITH", "ENDSWITH"])


def parse(expression: str, *, strict: bool = False) -> Node:
    """Return the expression as a tree whose root is a condition.

    Args:
        expression: what a consumer would subscribe with.
        strict: refuse what RocketMQ takes but does not do as it says; see
            `reput_filter.sql.strictchecks`.

    Raises:
        ExpressionError: ``expression`` is not a condition; has the column and the reason.
    """
    if len(expression) > EXPRESSION_SIZE_MAX:
        raise ExpressionError(
            expression[:EXPRESSION_SIZE_MAX],
            EXPRESSION_SIZE_MAX,
            f"{len(expression)} characters, and {EXPRESSION_SIZE_MAX} at most are taken",
        )
    return _Parser(expression, strict).selector()


class _Parser:
    def __init__(self, expression: str, strict: bool) -> None:
        self._expression = expression
        self._strict = strict
        self._tokens = tokens(expression)
        self._next = next(self._tokens)
        self._depth = 0

    # ------------------------------------------------------------------ grammar

    def selector(self) -> Node:
        start = self._next
        node = self._as_boolean(self._either(), start)
        if self._strict:
            if self._next.kind != END:
                raise self._error(self._next, strictchecks.trailing(self._expression, self._next))
            strictchecks.check(self._expression, node)
        return node

    def _either(self) -> Node:
        start = self._next
        operands = [self._both()]
        while self._takes("OR"):
            if len(operands) == 1:
                operands[0] = self._as_boolean(operands[0], start)
            start = self._next
            operands.append(self._as_boolean(self._both(), start))
        return operands[0] if len(operands) == 1 else self._made(AnyOf(tuple(operands)), start)

    def _both(self) -> Node:
        start = self._next
        operands = [self._equality()]
        while self._takes("AND"):
            if len(operands) == 1:
                operands[0] = self._as_boolean(operands[0], start)
            start = self._next
            operands.append(self._as_boolean(self._equality(), start))
        return operands[0] if len(operands) == 1 else self._made(AllOf(tuple(operands)), start)

    def _equality(self) -> Node:
        start = self._next
        left = self._comparison()
        while self._next.kind in ("=", "<>", "IS"):
            operator = self._advance()
            if operator.kind == "IS":
                is_not = self._takes("NOT")
                self._expect("NULL", "NULL")
                node: Node = IsNull(left, is_not, column=operator.column)
            else:
                if operator.kind == "=" and self._next.kind == "=":
                    raise self._error(self._next, "'==' is not an operator; write =")
                right_start = self._next
                right = self._comparison()
                for side, place in ((left, start), (right, right_start)):
                    if isinstance(side, Constant) and side.constant is None:
                        raise self._error(place, "nothing equals NULL; write IS NULL")
                self._check_types(left, right, right_start)
                node = Equal(left, right, operator.kind == "<>", column=operator.column)
            left = self._made(node, operator)
        return left

    def _comparison(self) -> Node:
        start = self._next
        left = self._unary()
        while True:
            operator = self._next
            if operator.kind in _ORDERS:
                self._advance()
                self._check_number(left, start)
                right_start = self._next
                right = self._unary()
                self._check_number(right, right_start)
                node: Node = Ordered(operator.kind, left, right, column=operator.column)
            elif operator.kind in ("NOT", "BETWEEN", "IN") or operator.kind in _SEARCHES:
                is_not = self._takes("NOT")
                word = self._advance()
                if word.kind == "BETWEEN":
                    node = self._between(left, start, is_not)
                elif word.kind == "IN":
                    node = self._member(left, start, is_not)
                elif word.kind in _SEARCHES:
                    text = self._expect("string", "a text in single quotes")
                    node = Search(word.kind, left, _unquoted(text), is_not, column=word.column)
                else:
                    raise self._error(word, "BETWEEN, IN, CONTAINS, … expected after NOT")
            else:
                return left
            left = self._made(node, operator)

    def _between(self, left: Node, start: Token, is_not: bool) -> Node:
        low_start = self._next
        low = self._unary()
        self._expect("AND", "AND")
        high_start = self._next
        high = self._unary()
        for side, place in ((left, start), (low, low_start), (high, high_start)):
            self._check_number(side, place)
        is_checked = self._strict or not is_not  # as in RocketMQ
        if is_checked and isinstance(low, Constant) and isinstance(high, Constant):
            low_value, high_value = low.constant, high.constant
            assert isinstance(low_value, Number)
            assert isinstance(high_value, Number)  # both were checked above
            if compare(high_value, low_value) < 0:
                raise self._error(high_start, "the upper bound is below the lower one")
        if is_not:
            return AnyOf(
                (
                    Ordered("<", left, low, column=low_start.column),
                    Ordered(">", left, high, column=high_start.column),
                )
            )
        return AllOf(
            (
                Ordered(">=", left, low, column=low_start.column),
                Ordered("<=", left, high, column=high_start.column),
            )
        )

    def _member(self, left: Node, start: Token, is_not: bool) -> Node:
        if not isinstance(left, Property):
            reason = "only a property can be IN a list"
            raise self._error(
                start, strictchecks.BARE_NOT if strictchecks.is_bare_not(left) else reason
            )
        self._expect("(", "'('")
        texts = [_unquoted(self._expect("string", "a text in single quotes"))]
        while self._takes(","):
            texts.append(_unquoted(self._expect("string", "a text in single quotes")))
        self._expect(")", "',' or ')'")
        return Member(left, tuple(texts), is_not)

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise self._error(self._next, f"nested more than {DEPTH_MAX} deep")
        token = self._next
        if self._takes("+"):
            node = self._unary()
        elif self._takes("-"):
            node = self._made(Negated(self._unary(), column=token.column), token)
        elif self._takes("NOT"):
            start = self._next
            operand = self._as_boolean(self._unary(), start)
            node = self._made(Not(operand, column=token.column), token)
        else:
            node = self._primary()
        self._depth -= 1
        return node

    def _primary(self) -> Node:
        token = self._advance()
        match token.kind:
            case "name":
                return Property(token.text, column=token.column)
            case "string":
                return Constant(_unquoted(token), column=token.column)
            case "integer":
                return Constant(self._integer(token), column=token.column)
            case "float":
                return Constant(self._float(token), column=token.column)
            case "TRUE" | "FALSE":
                return Constant(token.kind == "TRUE", column=token.column)
            case "NULL":
                return Constant(None, column=token.column)
            case "(":
                node = self._either()
                self._expect(")", "')'")
                node.is_enclosed = True
                return node
        raise self._error(token, _expected("a property, a literal or '('", token))

    # ------------------------------------------------------------------ literals

    def _integer(self, token: Token) -> Number:
        digits = token.text.rstrip("lL")
        if len(digits) > 19 or int(digits) > LONG_MAX:
            raise self._error(token, "the number does not fit 64 bits")
        value = int(digits)
        return Number(Kind.INT if value <= INT_MAX else Kind.LONG, value)

    def _float(self, token: Token) -> Number:
        value = float(token.text)
        if math.isinf(value):
            raise self._error(token, "the number is too large for a double")
        if value == 0:
            raise self._error(token, "a double that is zero is not taken; write 0")
        return Number(Kind.DOUBLE, value)

    # ------------------------------------------------------------------ checks

    def _as_boolean(self, node: Node, start: Token) -> Node:
        if isinstance(node, Property):
            return self._made(AsBoolean(node), start)
        if not node.is_boolean:
            raise self._error(start, "a condition expected, and this is a value")
        return node

    def _check_number(self, node: Node, start: Token) -> None:
        if isinstance(node, Constant) and not isinstance(node.constant, Number):
            raise self._error(start, "a property or a number expected")
        if node.is_boolean:
            reason = "a property or a number expected, and this is a condition"
            if strictchecks.is_bare_not(node):
                reason = strictchecks.BARE_NOT
            raise self._error(start, reason)

    def _check_types(self, left: Node, right: Node, right_start: Token) -> None:
        if not (isinstance(left, Constant) and isinstance(right, Constant)):
            return
        if isinstance(left.constant, bool) and not isinstance(right.constant, bool):
            raise self._error(right_start, "TRUE or FALSE expected")

    def _made(self, node: Node, token: Token) -> Node:
        # Chains of comparisons deepen the tree on the left, without any nesting in the text.
        if node.depth > 2 * DEPTH_MAX:
            raise self._error(token, f"nested more than {2 * DEPTH_MAX} deep")
        return node

    # ------------------------------------------------------------------ tokens

    def _advance(self) -> Token:
        token = self._next
        self._next = next(self._tokens)
        return token

    def _takes(self, kind: str) -> bool:
        if self._next.kind != kind:
            return False
        self._advance()
        return True

    def _expect(self, kind: str, name: str) -> Token:
        if self._next.kind != kind:
            raise self._error(self._next, _expected(name, self._next))
        return self._advance()

    def _error(self, token: Token, reason: str) -> ExpressionError:
        return ExpressionError(self._expression, token.column, reason)


def _expected(name: str, token: Token) -> str:
    return f"{name} expected" + ("; the expression ends here" if token.kind == END else "")


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")
