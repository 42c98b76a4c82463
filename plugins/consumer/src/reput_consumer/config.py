"""Options of the plugin."""

from __future__ import annotations

import attrs
from attrs.validators import and_, instance_of, matches_re, optional

from reput.plugin import INT32_MAX, integer_between

__all__ = ["ConsumerConfig"]


@attrs.frozen(kw_only=True)
class ConsumerConfig:
    """Options of the ``consumer`` plugin."""

    broker_name: str = attrs.field(
        default="broker-a", validator=and_(instance_of(str), matches_re(r"[%|@a-zA-Z0-9_-]+"))
    )
    """Name of the broker that the store's queues belong to (`brokerName`), by which some strategies
    share queues out, ``room@name`` for those that know machine rooms."""
    save_interval_ms: int = attrs.field(default=5_000, validator=integer_between(10, INT32_MAX))
    """How long what a consumer has finished, or a client has committed, may wait until it is saved
    (`flushConsumerOffsetInterval`)."""
    local_offsets: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """Directory in which broadcasting consumers keep ``.rocketmq_offsets``, such as the home
    directory of a user, where the Java client keeps it. The store's directory ``reput/consumer``
    when left out, so that two stores do not share offsets."""
