"""`PullFastPath`: answers pulls straight from connections' bytes, where their read is on the loop.

Such a pull needs no task and no other thread. `PullHandlers.pull` takes all others.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import ReputError
from reput_client.remoting import FRAME_SIZE_MAX, Command, Pull, plain_values
from reput_server.broker.pull.pullhandlers import CODES
from reput_server.errors import Refusal

if TYPE_CHECKING:
    from reput_server.broker.pull.pullhandlers import PullHandlers
    from reput_server.wire.interfaces import Connection, FromBytes

logger = logging.getLogger(__name__)

_TEXTS: Final = ("consumerGroup", "topic", "subscription", "expressionType", "liteTopic")
_NUMBERS: Final = (
    "queueId",
    "queueOffset",
    "maxMsgNums",
    "sysFlag",
    "commitOffset",
    "suspendTimeoutMillis",
    "subVersion",
    "maxMsgBytes",
)
_INT_LIMIT: Final = 1 << 31
_ONE_WAY: Final = 2


@attrs.define(eq=False, repr=False)
class PullFastPath:
    """Takes pulls on the event loop, for all connections of a broker."""

    pulls: PullHandlers

    def take(self, peer: Connection, data: bytes | bytearray) -> FromBytes:
        """Answer the pulls with which bytes of a connection begin."""
        answers: list[bytes] = []
        end = 0
        sizes = FRAME_SIZE_MAX, self.pulls.limits.header_bytes
        while (found := plain_values(data, end, CODES, _TEXTS, _NUMBERS, sizes)) is not None:
            following, code, opaque, flag, values = found
            pull = _pull_of(values)
            if pull is None or flag & ~_ONE_WAY:
                break
            try:
                answer = self.pulls.taken(peer, Command(code, opaque=opaque, flag=flag), pull)
            except (Refusal, ReputError, OSError):
                break
            except Exception:  # the longer way answers whatever is wrong with it
                logger.exception("pull not taken")
                break
            if answer is None:
                break
            answers.append(answer)
            end = following
        return b"".join(answers), end, len(answers)


def _pull_of(values: tuple[Any, ...]) -> Pull | None:
    """Return the pull with these values; None if one is missing, too large, or a lite topic."""
    group, topic, subscription, kind, lite_topic, *numbers, max_bytes = values
    if group is None or topic is None or lite_topic is not None or None in numbers:
        return None
    queue_id, queue_offset, count, sys_flag, commit_offset, suspend_ms, version = numbers
    if max(queue_id, count, sys_flag, max_bytes or 0) >= _INT_LIMIT:
        return None
    return Pull(
        consumer_group=group,
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        max_msg_nums=count,
        sys_flag=sys_flag,
        commit_offset=commit_offset,
        suspend_timeout_millis=suspend_ms,
        subscription=subscription,
        sub_version=version,
        expression_type=kind,
        max_msg_bytes=max_bytes,
    )
