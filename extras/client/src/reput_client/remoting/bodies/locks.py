"""Locks on queues, which consumers of ordered messages take.

Source: RocketMQ ``LockBatchRequestBody``, ``LockBatchResponseBody``, ``UnlockBatchRequestBody``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from reput_client.remoting.bodies.bodyobject import BodyObject
from reput_client.remoting.bodies.loosejson import write_body
from reput_client.remoting.bodies.queuename import QueueName, queue_of
from reput_client.remoting.errors import BodyError

_LOCKED: Final = "lockOKMQSet"


@attrs.frozen(kw_only=True)
class QueueLocks:
    """The queues that a member of a group wants to lock, or to give back."""

    group: str
    client_id: str
    queues: frozenset[QueueName]

    def encode(self) -> bytes:
        """Return the body."""
        return write_body(
            {
                "clientId": self.client_id,
                "consumerGroup": self.group,
                "mqSet": sorted(self.queues),
            }
        )

    @classmethod
    def decode(cls, body: bytes) -> QueueLocks:
        """Return what a body says.

        Raises:
            BodyError: it names no queues.
        """
        found = BodyObject.of(body, "locks on queues")
        return cls(
            group=found.text("consumerGroup"),
            client_id=found.text("clientId"),
            queues=_queues(found, "mqSet"),
        )


def encode_locked(queues: Iterable[QueueName]) -> bytes:
    """Return the body that names the queues which the caller holds now."""
    return write_body({_LOCKED: sorted(queues)})


def decode_locked(body: bytes) -> frozenset[QueueName]:
    """Return the queues which the caller holds now.

    Raises:
        BodyError: the body names no queues.
    """
    return _queues(BodyObject.of(body, "locked queues"), _LOCKED)


def _queues(found: BodyObject, name: str) -> frozenset[QueueName]:
    try:
        return frozenset(queue_of(each.found) for each in found.objects(name))
    except ValueError as error:
        raise BodyError(found.what, 0, str(error)) from None
