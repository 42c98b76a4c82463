"""Which messages a pull wants: as it says itself, or as its group has said in heartbeats.

Source: RocketMQ ``PullMessageProcessor``, ``FilterAPI``.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import NoReaderError
from reput_client.remoting import Pull, PullFlag, ResponseCode
from reput_consumer import SQL92, TAG, Selector, TagFilter
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput.plugin import MessageFilter
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.broker.clients.groupregistry import GroupRegistry

_KEPT: Final = 1_000
_KEPT_SIZE: Final = 10_000  # characters; a longer expression is read each time
_SUBSCRIPTION: Final = int(PullFlag.SUBSCRIPTION)


@attrs.define(eq=False, repr=False)
class Filters:
    """Compiled filters of pulls. `of` waits for nothing; `compiled` may."""

    context: BrokerContext
    groups: GroupRegistry
    _kept: OrderedDict[tuple[str, Selector], MessageFilter] = attrs.field(
        init=False, factory=OrderedDict
    )

    def selector(self, pull: Pull) -> Selector:
        """Return what a pull selects.

        Raises:
            Refusal: neither the pull nor its group say it.
        """
        if pull.sys_flag & _SUBSCRIPTION:
            kind = pull.expression_type or TAG
            return self.selector_of(pull.subscription or "*", kind)
        group = self.groups.get(pull.consumer_group)
        if group is None:
            text = f"the consumer's group info not exist, {pull.consumer_group}"
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        found = group.subscription(pull.topic)
        if found is None:
            text = f"the consumer's subscription not exist, {pull.consumer_group}, {pull.topic}"
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, text)
        if found.version < pull.sub_version:
            text = f"the consumer's subscription not latest, {pull.consumer_group}, {pull.topic}"
            raise Refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, text)
        return self.selector_of(found.expression, found.expression_type)

    def selector_of(self, expression: str, kind: str) -> Selector:
        """Return a selector of what a client has written.

        Raises:
            Refusal: it is none.
        """
        if len(expression) > _KEPT_SIZE:
            return _selector_of.__wrapped__(expression, kind)
        return _selector_of(expression, kind)

    def compiled(self, topic: str, selector: Selector) -> MessageFilter | None:
        """Return the filter that a read takes; None if it selects everything.

        Raises:
            Refusal: the expression cannot be compiled, or nothing compiles such expressions.
        """
        if selector.selects_all:
            return None
        if len(selector.expression) > _KEPT_SIZE:
            return self._compile(topic, selector)
        key = topic, selector
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._compile(topic, selector)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def _compile(self, topic: str, selector: Selector) -> MessageFilter:
        if selector.kind == TAG:
            return TagFilter(selector.tags)
        try:
            return self.context.store.filter(selector.expression, selector.kind, topic=topic)
        except NoReaderError:
            text = "The broker does not support consumer to filter message by " + selector.kind
            refusal = self.context.missing("filter", "conditions")
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{text}: {refusal}") from None
        except ValueError as error:
            text = f"parse the consumer's subscription failed: {error}"
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text) from None


@functools.lru_cache(_KEPT)
def _selector_of(expression: str, kind: str) -> Selector:
    if kind not in (TAG, SQL92):
        text = f"expression type {kind[:40]!r} is not known; TAG and SQL92 are"
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text)
    selector = Selector(expression or "*", kind)
    if kind == TAG and not selector.selects_all and not selector.tags:
        text = f"no tag in {expression[:80]!r}"
        raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, text)
    return selector
