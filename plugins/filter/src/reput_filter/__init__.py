"""Filters for reput: tags and SQL92 conditions as RocketMQ has them, for one message or a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_filter.columns._javavalues import EvaluationError as EvaluationError
    from reput_filter.compiling import compile as compile  # noqa: A004
    from reput_filter.consumers.consumer import Consumer as Consumer
    from reput_filter.consumers.registered import RegisteredFilter as RegisteredFilter
    from reput_filter.consumers.registered import RetryFilter as RetryFilter
    from reput_filter.errors import ExpressionError as ExpressionError
    from reput_filter.expression import Expression as Expression
    from reput_filter.plugin import FilterConfig as FilterConfig
    from reput_filter.plugin import FilterPlugin as FilterPlugin
    from reput_filter.subscription import TagSubscription as TagSubscription
    from reput_filter.subscription import tags as tags

_HOMES = {
    "Consumer": "consumers.consumer",
    "EvaluationError": "columns._javavalues",
    "Expression": "expression",
    "ExpressionError": "errors",
    "FilterConfig": "plugin",
    "FilterPlugin": "plugin",
    "RegisteredFilter": "consumers.registered",
    "RetryFilter": "consumers.registered",
    "TagSubscription": "subscription",
    "compile": "compiling",
    "tags": "subscription",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
