"""Options of the plugin."""

from __future__ import annotations

import attrs
from attrs.validators import and_, instance_of, matches_re, optional

from reput.plugin import INT32_MAX, integer_between


@attrs.frozen(kw_only=True)
class ConsumerConfig:
    """Options of the ``consumer`` plugin."""

    broker_name: str = attrs.field(
        default="broker-a", validator=and_(instance_of(str), matches_re(r"[%|@a-zA-Z0-9_-]+"))
    )
    """Name of the broker to which the queues of the store belong (``brokerName``): letters, digits
    and ``%``, ``|``, ``@``, ``_``, ``-``. Some strategies use this name when they assign queues to
    consumers. For ``MachineRoom(…)`` and ``NearbyRoom(…)`` the name must have the form
    ``room@name``.

    Set it to the name of the RocketMQ broker that wrote the store, or to different names when
    clients use several servers.
    """
    save_interval_ms: int = attrs.field(default=5_000, validator=integer_between(10, INT32_MAX))
    """Time between two saves of offsets that consumers have finished or clients have committed
    (``flushConsumerOffsetInterval``).

    Lower it to have fewer messages delivered again after a crash.
    """
    local_offsets: str | None = attrs.field(default=None, validator=optional(instance_of(str)))
    """Directory in which broadcasting consumers keep ``.rocketmq_offsets``. Without it,
    ``reput/consumer`` in the store's directory, so that two stores do not share offsets.

    Set it to a user's home directory, where the Java client keeps these offsets, to continue where
    that client stopped.
    """
