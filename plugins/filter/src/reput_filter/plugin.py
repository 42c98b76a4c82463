"""The plugin ``filter``: compiles filters for reads, and computes bit maps if its option is set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from attrs.validators import instance_of

import reput
from reput.plugin import integer_between
from reput_filter.consumerfilters.bloomfilter import BloomFilter
from reput_filter.consumerfilters.filterregistry import FilterRegistry
from reput_filter.filterkinds import SQL92, TAG

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.plugin import StoreContext
    from reput.record import DispatchBatch
    from reput_filter.consumerfilters.consumerfilter import ConsumerFilter
    from reput_filter.consumerfilters.registeredfilter import RegisteredFilter, RetryFilter
    from reput_filter.expression import Expression
    from reput_filter.tagsubscription import TagSubscription
    from reput_tools.brokerfiles import BrokerDocument

_MISTAKEN = frozenset({SQL92, TAG, "SQL", "TAGS"})
"""Words that mean one of the kinds, in whatever case."""

DIRECTORY = "config"
FILE_NAME = "consumerFilter.json"


@attrs.frozen(kw_only=True)
class FilterConfig:
    """Options of the ``filter`` plugin."""

    strict: bool = attrs.field(default=True, validator=instance_of(bool))
    """Refuse a filter of a read if RocketMQ accepts the filter but evaluates it in a surprising
    way, such as ``a LIKE 'x%'``. Filters that consumers register are not refused for this reason.

    Turn it off when existing consumers depend on such a filter.
    """
    bit_maps: bool = attrs.field(default=False, validator=instance_of(bool))
    """Compute a bit map for each message, which records the registered filters that select it. Bit
    maps are kept if ``extend`` of ``[consumequeue]`` is on. When a consumer leaves, the plugin
    continues to compute the consumer's bits for one more day.

    Turn it on when many consumers filter the same topic by SQL expressions.
    """
    max_error_rate: int = attrs.field(default=20, validator=integer_between(1, 99))
    """A bit map can wrongly show that a filter selects its message. Maximum percentage of such
    errors among the messages that the filter does not select.

    Lower it when it costs too much to read messages that the filter does not select; the bit maps
    then become longer.
    """
    expected_consumers: int = attrs.field(default=32, validator=integer_between(1, 100_000))
    """Number of consumers for which `max_error_rate` holds. With the default rate, a bit map has
    3.5 bits for each consumer.

    Raise it when more than this number of consumers register filters.
    """
    retry_topics: bool = attrs.field(default=False, validator=instance_of(bool))
    """Filter the messages of a retry topic (``%RETRY%group``) by the filters that the group
    registered for the original topics, and ignore the condition that the read gives.

    Turn it on when a group changes its filter and must not get retries that no longer match.
    """

    removed_options: ClassVar[Mapping[str, str]] = {
        "forget_after_ms": "bits of a consumer that has left are computed for a day"
    }


@attrs.define(eq=False)
class FilterPlugin(reput.Plugin):
    """Compiles filters, and keeps the filters that consumers register.

    A new store uses it only if named. Nothing is lost without it: a compiled filter needs no
    plugin, as reads accept it directly; and a store that uses this plugin cannot be opened without
    it.
    """

    name: ClassVar[str] = "filter"
    config_type: ClassVar[type] = FilterConfig
    forget_after_ms: ClassVar[int] = 86_400_000
    """How long the bits of a consumer that has left are still computed."""

    config: FilterConfig = attrs.field(factory=FilterConfig)
    consumers: FilterRegistry = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: self._none(lambda: 0), takes_self=True),
    )
    """The registered filters."""
    _context: StoreContext | None = attrs.field(init=False, default=None)
    _document: BrokerDocument | None = attrs.field(init=False, default=None)
    _written: dict[str, Any] = attrs.field(init=False, factory=dict)
    """What the file holds, as far as is known; empty if it is missing, or cannot be read."""
    _seen: bytes | None = attrs.field(init=False, default=None)
    """The bytes that were read last, in a read-only store."""
    _follow_lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    # ------------------------------------------------------------------ opening

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Load the registered filters."""
        self._context = context
        self.consumers = self._none(context.clock)
        from reput_filter.consumerfilters.filterfile import check, decode
        from reput_tools.brokerfiles import BrokerDocument

        self._document = BrokerDocument(
            context.directory(DIRECTORY),
            FILE_NAME,
            context.disk,
            context.clock,
            context.note_problem,
            check,
            is_versioned=False,
        )
        if context.writable:
            self._document.finish_replacing(flush=not context.clean)
        self._written = self._document.read()
        if self._written:
            bloom, now = self.consumers.bloom, context.clock()
            self.consumers.load(decode(self._written, bloom, now, alive=not context.writable))

    def _none(self, clock: Callable[[], int]) -> FilterRegistry:
        bloom = BloomFilter.of(self.config.max_error_rate, self.config.expected_consumers)
        return FilterRegistry(bloom, clock, self._write)

    # ------------------------------------------------------------------ filters of reads

    @reput.hookimpl
    def reput_filter(
        self, expression: str, kind: str | None, topic: str | None
    ) -> Expression | TagSubscription | RegisteredFilter | RetryFilter | None:
        """See `reput.plugin.hookspecs.reput_filter`."""
        kind = SQL92 if kind is None else kind
        if kind not in (SQL92, TAG):
            if kind.upper() in _MISTAKEN:
                raise ValueError(f'kind must be "{TAG}" or "{SQL92}", not {kind!r}')
            return None  # another plugin's
        from reput_filter import compiler
        from reput_filter.consumerfilters.registeredfilter import (
            RETRY_PREFIX,
            RegisteredFilter,
            RetryFilter,
            group_of,
        )

        compiled = compiler.compile(expression, kind, strict=self.config.strict)
        if kind == SQL92 and topic is not None:
            self._follow()
            if self.config.retry_topics and topic.startswith(RETRY_PREFIX):
                return RetryFilter(self.consumers.of_group(group_of(topic)))
            registered = self.consumers.with_expression(topic, expression)
            if registered is not None:
                return RegisteredFilter(registered, self._registered)
        return compiled

    def _registered(self, topic: str, group: str) -> ConsumerFilter | None:
        self._follow()
        return self.consumers.find(topic, group)

    # ------------------------------------------------------------------ registered filters

    def register(
        self,
        group: str,
        topic: str,
        expression: str | None,
        *,
        kind: str | None = SQL92,
        version: int = 0,
    ) -> bool:
        """Register a consumer group's filter of a topic, for bit maps; durable on return.

        See `FilterRegistry.register`.

        Returns:
            Whether that changed anything.
        """
        return self.consumers.register(group, topic, expression, kind=kind, version=version)

    def register_group(
        self, group: str, subscriptions: Mapping[str, str], *, version: int = 0
    ) -> None:
        """Register all filters of a group, by topic; its filters of other topics become dead."""
        self.consumers.register_group(group, subscriptions, version=version)

    def unregister(self, group: str) -> None:
        """Make all filters of a consumer group dead, as the group has left."""
        self.consumers.unregister(group)

    def _write(self, consumers: Sequence[ConsumerFilter]) -> None:
        context = self._context
        if context is None or not context.writable:
            return
        from reput_filter.consumerfilters.filterfile import encode

        document = encode(consumers)
        if document == self._written or not (self._written or consumers):
            return
        assert self._document is not None
        self._document.replace(document)
        self._written = document

    def _follow(self) -> None:
        """Load the filters again if another process has changed them; in a read-only store."""
        context = self._context
        if context is None or context.writable:
            return
        with self._follow_lock:
            assert self._document is not None
            seen = context.disk.read_if_exists(self._document.path)
            if seen == self._seen:
                return
            self._seen, document = seen, self._document.read()
            if document == self._written:
                return
            consumers = self._none(context.clock)
            if document:
                from reput_filter.consumerfilters.filterfile import decode

                consumers.load(decode(document, consumers.bloom, context.clock(), alive=True))
            self.consumers, self._written = consumers, document

    # ------------------------------------------------------------------ bit maps

    @reput.hookimpl
    def reput_enrich(self, batch: DispatchBatch) -> Mapping[str, npt.NDArray[np.generic]] | None:
        """Return which registered filters select each message of ``batch``."""
        return self.consumers.bit_maps(batch) if self.config.bit_maps else None

    @reput.hookimpl
    def reput_flush(self) -> None:
        """Save changes, and remove filters that have been dead for long."""
        if self._context is not None:
            self.consumers.save(forget_before=self._context.clock() - self.forget_after_ms)

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return the registered filters, and how their bits are made."""
        bloom = self.consumers.bloom
        return {
            "registered": len(self.consumers.everyone()),
            "bit_maps": self.config.bit_maps,
            "bit_count": bloom.bit_count,
            "hash_count": bloom.hash_count,
        }
