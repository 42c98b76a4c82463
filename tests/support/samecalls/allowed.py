"""What may differ between RocketMQ's proxy with a broker 5.3.3 and ours, each with its reason.

The site lists the rules on the page ``docs/reference/differences.md``.
"""

from __future__ import annotations

from sameanswers.allowed import Allowed

_REFUSED = ("*status/code", "*status/words")
_TOPIC_CALLS = ("AckMessage: *", "ChangeInvisibleDuration: *", "ForwardMessageToDeadLetterQueue: *")

MEASURED = (
    Allowed(
        "times, ports, and the form of receipt handles",
        parts=("*timestamp", "*/store_host", "*/addresses/0/port", "*receipt_handle"),
        is_told_by_both=True,
    ),
    Allowed(
        "the time in a recall handle, which RocketMQ rounds, and the offset of a delayed message",
        names=("send type 3 *", "send after *", "send at *", "send what is *"),
        parts=("entries/0/offset", "entries/0/recall_handle"),
    ),
    Allowed(
        "the queue of a message without a message group, if its topic has several",
        names=(
            "send type * to wide",
            "send type * to narrow",
            "send type * to writeonly",
            "ReceiveMessage: topic of a cluster",
        ),
        parts=("entries/0/offset", "*/queue_id"),
    ),
)
"""Values that are never the same twice, or have no meaning."""

CODES = (
    Allowed(
        "a receipt handle that is not valid: here code 40013, there 50001",
        names=(
            *_TOPIC_CALLS,
            "acknowledge *nonsense",
            "acknowledge an empty handle",
            "acknowledge of an unknown topic",
            "change nonsense",
            "change an empty handle",
            "dead letter: nonsense",
            "dead letter: an empty handle",
        ),
        parts=_REFUSED,
    ),
    Allowed(
        "an unknown or finished transaction: here code 40008, there 50001; here an "
        "EndTransaction that neither commits nor rolls back succeeds",
        names=("EndTransaction: *", "end of *", "end in another topic", "end without an id"),
        parts=("*status/*",),
    ),
    Allowed(
        "a topic that does not exist: here code 40402, there 40014 for sends and recalls",
        names=("SendMessage: topic *", "RecallMessage: topic *", "recall by an unknown topic"),
        parts=("status/code",),
    ),
    Allowed(
        "a filter expression that cannot be compiled (40010), a time that is out of range "
        "(40012), a recall handle that is not valid, and a call without entries (40000): there "
        "50001",
        names=(
            "select bad SQL",
            "select SQL of a number",
            "recall *",
            "RecallMessage: *",
            "send at far",
            "acknowledge nothing",
        ),
        parts=("*status/code",),
    ),
    Allowed(
        "a group that may not read: here code 40300, there 50001",
        names=("receive of a group that is disabled",),
        parts=("0/status/code",),
    ),
)
"""Refusals that have another code here."""

STRICTER = (
    Allowed(
        "a receipt handle, with code 40013, after its message was acknowledged, got another "
        "invisible time or became a dead letter, or with another group or topic; there it is "
        "accepted until its invisible time ends",
        names=("acknowledge *", "change *", "dead letter: *"),
        parts=("status/*", "entries/*/status/*", "receipt_handle"),
    ),
    Allowed(
        "a message id with control characters or more than 255 characters, and a property "
        "without a name",
        names=("send id *", "send property named *"),
        parts=("status/*", "entries*"),
    ),
    Allowed(
        "the name of a group with more than 248 characters; there 255",
        names=("*: group of 255",),
    ),
    Allowed(
        "consumers of topics without valid names, or of another type than `PUSH_CONSUMER` or "
        "`SIMPLE_CONSUMER`: the stream ends with `INVALID_ARGUMENT`",
        names=("consumer: topic with a slash", "consumer of type *"),
        parts=("gRPC", "status/", "status/*", "settings/", "settings/*"),
    ),
)
"""Calls that are refused here, and accepted there."""

RICHER = (
    Allowed(
        "namespaces keep topics and groups apart; there they are ignored",
        names=("route in the namespace *", "send into a namespace"),
    ),
    Allowed(
        "an entry in the answer for each message of a call; there one entry for all",
        names=("send two*",),
        parts=("entries*",),
    ),
    Allowed(
        "a client's language may be any text, or absent",
        names=("heartbeat with no language", "heartbeat with an odd language"),
    ),
    Allowed(
        "a receive before the client has sent its settings, with any deadline, or with a batch "
        "size below zero, which counts as 1",
        names=("receive by an unknown client", "receive in 3 s", "receive with batch -1"),
        parts=("0/status/*",),
    ),
    Allowed(
        "a receive that finds nothing is answered before its deadline; there perhaps after it",
        names=("receive in 6 s",),
    ),
    Allowed(
        "a tag expression of blanks selects everything; there it selects nothing",
        names=("select blank",),
    ),
    Allowed(
        "the route lists the queues by id; there queues that can be both read and written come "
        "last",
        names=("route of wide", "route of narrow"),
        parts=("message_queues/*/permission",),
    ),
)
"""Calls that are accepted or answered here, and not there."""

ALLOWED = (*MEASURED, *CODES, *STRICTER, *RICHER)
