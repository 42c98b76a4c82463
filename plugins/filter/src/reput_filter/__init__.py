"""Filters for reput: tags and SQL92 conditions as RocketMQ has them, for one message or a batch."""

from __future__ import annotations

from reput_filter.columns._javavalues import EvaluationError
from reput_filter.compiling import compile  # noqa: A004
from reput_filter.consumers.consumer import Consumer
from reput_filter.consumers.registered import RegisteredFilter, RetryFilter
from reput_filter.errors import ExpressionError
from reput_filter.expression import Expression
from reput_filter.plugin import FilterConfig, FilterPlugin
from reput_filter.subscription import TagSubscription, tags

__all__ = [
    "Consumer",
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "FilterConfig",
    "FilterPlugin",
    "RegisteredFilter",
    "RetryFilter",
    "TagSubscription",
    "compile",
    "tags",
]
