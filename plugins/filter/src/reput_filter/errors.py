"""Errors of this distribution."""

from __future__ import annotations

import attrs

from reput.errors import ReputError

_SHOWN = 60  # characters of an expression shown on either side of the error


@attrs.define(eq=False, repr=False, slots=False)
class ExpressionError(ReputError, ValueError):
    """An expression that cannot be compiled; the text points at the wrong place."""

    expression: str
    column: int  # from 0
    reason: str

    def __str__(self) -> str:
        start = max(self.column - _SHOWN, 0)
        part = self.expression[start : self.column + _SHOWN]
        # On one line, whatever characters it has, so that the arrow is below the place.
        line = "".join(each if each.isprintable() else " " for each in part)
        return (
            f"column {self.column + 1}: {self.reason}\n    {line}\n"
            f"    {' ' * (self.column - start)}^"
        )
