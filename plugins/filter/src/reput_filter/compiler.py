"""`compile`: make a filter from an SQL92 condition or from tags."""

from __future__ import annotations

from reput_filter.expression import Expression, compiled
from reput_filter.filterkinds import SQL92, TAG
from reput_filter.tagsubscription import TagSubscription


def compile(  # noqa: A001 - the word for it, as in `re`
    expression: str | None, kind: str | None = SQL92, *, strict: bool = False
) -> Expression | TagSubscription:
    """Make a filter: a plain object, which can be pickled and is independent of any store.

    Args:
        expression: an SQL92 condition, or tags: ``"A || B"``, ``"*"``.
        kind: ``"SQL92"`` or ``"TAG"``; None and ``""`` mean tags, as for RocketMQ.
        strict: refuse conditions that RocketMQ takes but that do not mean what they seem to
            (`reput_filter.sql.strictchecks` lists them).

    Raises:
        ExpressionError: ``expression`` is not of that kind.
        ValueError: there is no such kind.
    """
    if kind in (None, "", TAG):
        return TagSubscription.parse(expression)
    if kind != SQL92:
        raise ValueError(f'"{SQL92}" or "{TAG}" expected, not {kind!r}')
    return compiled(expression or "", strict)
