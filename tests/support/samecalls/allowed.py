"""What may differ between RocketMQ's proxy with a broker 5.3.3 and ours, each with its reason.

The page ``docs/clients-5.md`` lists the same, in the same order; a test compares them.
"""

from __future__ import annotations

from sameanswers.allowed import Allowed

_REFUSED = ("*status/code", "*status/words")
_TOPIC_CALLS = ("AckMessage: *", "ChangeInvisibleDuration: *", "ForwardMessageToDeadLetterQueue: *")

MEASURED = (
    Allowed(
        "times, ports, and receipt handles, which have another form",
        parts=("*timestamp", "*/store_host", "*/addresses/0/port", "*receipt_handle"),
        is_told_by_both=True,
    ),
    Allowed(
        "the time in a handle to recall a message, which a RocketMQ broker rounds, and the offset "
        "in the answer to the send of a delayed message",
        names=("send type 3 *", "send after *", "send at *", "send what is *"),
        parts=("entries/0/offset", "entries/0/recall_handle"),
    ),
    Allowed(
        "the queue in which a message without a message group is stored, if its topic has several",
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
        "a transaction that is not known, or has already ended: here code 40008, there 50001; "
        "here an EndTransaction that neither commits nor rolls back succeeds for any transaction "
        "id that is not empty",
        names=("EndTransaction: *", "end of *", "end in another topic", "end without an id"),
        parts=("*status/*",),
    ),
    Allowed(
        "a topic that does not exist: here code 40402 for all calls, there 40014 for sends and "
        "recalls",
        names=("SendMessage: topic *", "RecallMessage: topic *", "recall by an unknown topic"),
        parts=("status/code",),
    ),
    Allowed(
        "a filter expression that cannot be compiled (here code 40010), a time that is out of "
        "range (40012), a recall handle that is not valid (40000), and a call without entries "
        "(40000): there code 50001",
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
        "a receipt handle is refused with code 40013 if its message was acknowledged, got another "
        "invisible time, or became a dead letter; it is also refused if a call uses it with "
        "another group or topic; there it is accepted until the invisible time of its receive ends",
        names=("acknowledge *", "change *", "dead letter: *"),
        parts=("status/*", "entries/*/status/*", "receipt_handle"),
    ),
    Allowed(
        "a message id that has control characters or more than 255 characters, and a property "
        "without a name, are refused",
        names=("send id *", "send property named *"),
        parts=("status/*", "entries*"),
    ),
    Allowed(
        "the name of a group has at most 248 characters; RocketMQ accepts up to 255",
        names=("*: group of 255",),
    ),
    Allowed(
        "a consumer's topics must have valid names, and its client type must be `PUSH_CONSUMER` "
        "or `SIMPLE_CONSUMER`; otherwise the stream ends with `INVALID_ARGUMENT`",
        names=("consumer: topic with a slash", "consumer of type *"),
        parts=("gRPC", "status/", "status/*", "settings/", "settings/*"),
    ),
)
"""What is refused here, and accepted there."""

RICHER = (
    Allowed(
        "namespaces keep topics and groups apart; there they are ignored",
        names=("route in the namespace *", "send into a namespace"),
    ),
    Allowed(
        "each message of a call has its own entry in the answer; there all messages have one "
        "entry, with all ids in one text",
        names=("send two*",),
        parts=("entries*",),
    ),
    Allowed(
        "a client's language may be any text, or absent",
        names=("heartbeat with no language", "heartbeat with an odd language"),
    ),
    Allowed(
        "a client may receive before it has sent its settings, with any deadline, and with a "
        "batch size below zero, which counts as 1",
        names=("receive by an unknown client", "receive in 3 s", "receive with batch -1"),
        parts=("0/status/*",),
    ),
    Allowed(
        "a receive that finds nothing is answered before its deadline; there the answer may come "
        "after the deadline",
        names=("receive in 6 s",),
    ),
    Allowed(
        "a tag expression of blanks selects everything; there it selects nothing",
        names=("select blank",),
    ),
    Allowed(
        "the route lists the queues by id, each with its own permission; there the queues that "
        "can be both read and written come last",
        names=("route of wide", "route of narrow"),
        parts=("message_queues/*/permission",),
    ),
)
"""What is accepted or answered here, and not there."""

ALLOWED = (*MEASURED, *CODES, *STRICTER, *RICHER)
