"""Filters for reput: tags and SQL92 conditions as RocketMQ has them, for one message or a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_filter.columns.javanumbers import EvaluationError as EvaluationError
    from reput_filter.compiler import compile as compile  # noqa: A004
    from reput_filter.consumerfilters.consumerfilter import ConsumerFilter as ConsumerFilter
    from reput_filter.consumerfilters.registeredfilter import RegisteredFilter as RegisteredFilter
    from reput_filter.consumerfilters.registeredfilter import RetryFilter as RetryFilter
    from reput_filter.errors import ExpressionError as ExpressionError
    from reput_filter.expression import Expression as Expression
    from reput_filter.plugin import FilterConfig as FilterConfig
    from reput_filter.plugin import FilterPlugin as FilterPlugin
    from reput_filter.tagsubscription import TagSubscription as TagSubscription
    from reput_filter.tagsubscription import tags as tags
else:
    __getattr__, __dir__ = lazy_exports(__name__)
