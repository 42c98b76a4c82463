"""Cut an expression into tokens, as RocketMQ's generated lexer does.

The longest token wins, and among equals a keyword before a name. Numbers have no leading zeros:
``012`` is ``0`` and then ``12``. A ``--`` without a line end after it is two minus signs, not a
comment.

Source: ``SelectorParser.jj`` (5.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from reput_filter.errors import ExpressionError

END: Final = "end"

KEYWORDS: Final = frozenset(
    [
        "NOT",
        "AND",
        "OR",
        "BETWEEN",
        "IN",
        "TRUE",
        "FALSE",
        "NULL",
        "IS",
        "CONTAINS",
        "STARTSWITH",
        "ENDSWITH",
    ]
)

# Alternatives are tried in this order; none can match the same text in two ways.
_FORM: Final = r"""
      (?P<blank>    [ \t\n\r\f]+ | /\*.*?\*/ %s )
    | (?P<float>    [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)?
                  | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<integer>  0 | [1-9][0-9]*[lL]? )
    | (?P<string>   '(?:[^']|'')*+' )
    | (?P<name>     [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<operator> <> | >= | <= | [=<>(),+-] )
    """
_FLAGS: Final = re.VERBOSE | re.DOTALL
_TOKEN: Final = re.compile(_FORM % r"| --[^\n\r]*(?:\r\n|\n|\r)", _FLAGS)
_TOKEN_OF_LAST_LINE: Final = re.compile(_FORM % "", _FLAGS)


class Token(NamedTuple):
    """A piece of an expression."""

    kind: str
    """A keyword in capitals, an operator, ``"name"``, ``"integer"``, ``"float"``, ``"string"``, or
    `END`."""
    text: str
    column: int
    """Where the token begins, from 0."""


def tokens(expression: str) -> Iterator[Token]:
    """Yield the tokens lazily; after the last one `END`, again and again.

    Raises:
        ExpressionError: when a character is reached that begins no token.
    """
    at = 0
    last_line = max(expression.rfind("\n"), expression.rfind("\r")) + 1
    while at < len(expression):
        # On the last line there is no line end to find; each search for it would read all the text.
        found = (_TOKEN if at < last_line else _TOKEN_OF_LAST_LINE).match(expression, at)
        if found is None:
            raise ExpressionError(expression, at, _no_token(expression, at))
        kind, text = str(found.lastgroup), found.group()
        if kind == "name" and text.upper() in KEYWORDS:
            kind = text.upper()
        if kind != "blank":
            yield Token(text if kind == "operator" else kind, text, at)
        at = found.end()
    while True:
        yield Token(END, "", len(expression))


def _no_token(expression: str, at: int) -> str:
    two, one = expression[at : at + 2], expression[at]
    if two == "!=":
        return "'!=' is not an operator; write <>"
    if two == "/*":
        return "the comment is not closed"
    if one == "'":
        return "the text is not closed"
    if one == '"':
        return "texts stand in single quotes"
    return f"{one!r} begins nothing that is known"
