"""What may differ between a broker of RocketMQ 5.3.3 and ours, each with its reason.

The site lists the rules on the page ``docs/reference/differences.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

import attrs
from sameanswers import batching
from sameanswers.comparing import MISSING, Difference

_ANY = ("*",)


@attrs.frozen
class Allowed:
    """Parts of answers that may differ."""

    what: str
    """A row of the page, as Markdown."""
    names: tuple[str, ...] = _ANY
    """Patterns of the names of exchanges."""
    parts: tuple[str, ...] = _ANY
    """Patterns of the names of parts."""
    is_told_by_both: bool = False
    """Whether only the value may differ, and the part has to be there in both answers."""

    def covers(self, difference: Difference) -> bool:
        """Whether a difference is this one."""
        if self.is_told_by_both and MISSING in (difference.theirs, difference.ours):
            return False
        return _matches(difference.name, self.names) and _matches(difference.part, self.parts)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in patterns)


MEASURED = (
    Allowed(
        "times and measured values: message rates, versions of tables, memory, disk",
        parts=(
            "*imestamp",
            "*store_timestamp",
            "body/table/*",
            "body/*Tps",
            "body/*ataVersion/counter",
            "record */properties/TIMER_*",
            "body/consumeTimeSpanSet/1/*",
        ),
        is_told_by_both=True,
    ),
    Allowed(
        "ports of clients, and keys that a broker generates for messages without one",
        parts=("*/clientAddr", "field:transactionId"),
        names=("consumers*", "producers*", "send with*"),
        is_told_by_both=True,
    ),
    Allowed("the language of the peer, `PYTHON` and not `JAVA`", parts=("language",)),
    Allowed(
        "empty remarks of success (`not set any response code`)",
        names=("topic *", "members of *", "members with *", "roll back", "entries*"),
        parts=("remark",),
    ),
    Allowed(
        "the order of properties in a stored message",
        parts=("record */order of properties",),
    ),
)
"""Values that are never the same twice, or have no meaning."""

CODES = (
    Allowed(
        "a batch that is not valid, and a delay level that is not a number: here code 13, there "
        "code 1",
        names=("batch of nothing", "batch cut off", "send at an odd level"),
    ),
)
"""Refusals that have another code here."""

STRICTER = (
    Allowed(
        "a request without a mandatory field or body, with code 1 and the field's name; there "
        "some end in a NullPointerException",
        names=(
            "route of no topic",
            "setting without a value",
            "without producerGroup",
            "commit nothing",
            "query without a key",
            "beat of nobody",
            "check nothing",
            "leave without a name",
        ),
    ),
    Allowed(
        "a group whose name no client accepts; its offsets are not kept",
        names=(
            "group badly named",
            "group without a name",
            "group too long",
            "pull by a bad name",
            "beat of a bad name",
            "commit of a bad name",
        ),
    ),
    Allowed(
        "groups with such names appear in no list",
        names=("all groups*", "all topics in the end", "readers of *", "all offsets in the end"),
        parts=(
            "body/subscriptionGroupTable//",
            "body/subscriptionGroupTable/a/b/",
            "body/subscriptionGroupTable/ggg*",
            "body/topicConfigTable/%RETRY%a/b/",
            "body/groupList/a/b",
            "body/offsetTable/orders@a/b/",
        ),
    ),
    Allowed(
        "topics without queues, and topics whose permissions have no meaning",
        names=("topic without queues", "topic with odd permissions"),
    ),
    Allowed(
        "such topics appear in no list",
        parts=(
            "body/topicConfigTable/none/",
            "body/topicConfigTable/odd/",
            "body/topicList/none",
            "body/topicList/odd",
        ),
    ),
    Allowed(
        "a send to a topic without write permission; RocketMQ leaves this check to its clients",
        names=("refused: may only be read", "refused: may do nothing"),
    ),
    Allowed(
        "a subscription expression that cannot be compiled, or is neither tags nor SQL92, with "
        "code 23; there the pull gets all messages",
        names=("pull by bad SQL", "pull by an odd kind"),
    ),
    Allowed(
        "an offset below zero is not committed",
        names=("commit below zero", "offset below zero"),
    ),
    Allowed(
        "a header that is not valid JSON, or has no code, closes the connection",
        names=("raw *",),
    ),
    Allowed(
        "a broker whose registration is refused is not listed",
        names=("clusters after leaving",),
        parts=("body/*single*",),
    ),
)
"""Requests that are refused here, and accepted there."""

RICHER = (
    Allowed(
        "a pull gets as many messages and bytes as it asks for; there at most 32 messages of "
        "any size",
        names=("pull many", "pull too many", "pull few bytes"),
    ),
    Allowed("a message without a body is stored", names=("send nothing",)),
    Allowed(
        "a delayed message in a batch is delayed; there it is delivered at once",
        names=("batch with delays",),
    ),
    Allowed("delays of more than three days are accepted", names=("send in too long",)),
    Allowed(
        "if only one of the two servers stores a message, the messages after it have other offsets",
        names=("send without*", "send with odd properties", "without producerGroup"),
        parts=("field:msgId", "field:queueOffset"),
        is_told_by_both=True,
    ),
    Allowed(
        "the end of a transaction is in the log at once, there up to three seconds later",
        names=("half *", "reply *", "send to operate *", "entries*"),
        parts=("field:msgId", "body/queueData/*/physicOffset"),
        is_told_by_both=True,
    ),
    Allowed(
        "a route has the field `orderTopicConf`; there only with the name server's "
        "`orderMessageEnable`",
        names=("route in order",),
        parts=("body/orderTopicConf",),
    ),
    Allowed(
        "the consumers of a topic are all groups that subscribe to it; there the topic's own "
        "name, by error",
        names=("readers of orders",),
        parts=("body/groupList/orders", "body/groupList/beaten"),
    ),
    Allowed(
        "the position of the last message in the index is the end of this message, there its "
        "beginning",
        names=("query*",),
        parts=("field:indexLastUpdatePhyoffset",),
        is_told_by_both=True,
    ),
    Allowed(
        "delay levels without waiting messages are reported, with 0",
        names=("all delay offsets in the end",),
        parts=("body/offsetTable/*",),
    ),
    Allowed(
        "the state of the broker has `getTransferedTps` also under its name in 5.x, and the "
        "offsets of all delay levels",
        names=("runtime",),
        parts=("body/table/getTransferedTps", "body/table/scheduleMessageOffset_*"),
    ),
    Allowed(
        "the list of system topics has those of transactions in RocksDB, of release 5.4",
        parts=("body/topicList/RMQ_SYS_ROCKSDB_TRANS_*",),
    ),
    Allowed(
        "a message of a batch has its own properties only, as in release 5.4; there it gets those "
        "of the batch, too",
        names=("batch", "batch * *", "pull batch*"),
        parts=(
            "field:msgId",
            "record */size",
            "record */physical_offset",
            *(f"record */properties/{name}" for name in batching.ADDED),
        ),
    ),
)
"""Answers that exist here, and not there."""

ABSENT = (
    Allowed(
        "heartbeats of the second kind (`IS_SUPPORT_HEART_BEAT_V2`), without subscriptions",
        names=("beat*",),
        parts=("field:IS_*",),
    ),
    Allowed(
        "handles to recall a timed message (`recallHandle`), except for clients that speak gRPC",
        names=("send in a second",),
        parts=("field:recallHandle",),
    ),
    Allowed(
        "RocketMQ's internal topics for pop and for replication, and tables of static topics",
        parts=("*rmq_sys_REVIVE_LOG_*", "*rmq_sys_SYNC_BROKER_MEMBER_*", "*apping*"),
    ),
    Allowed(
        "groups of RocketMQ's own tools, before their first use",
        names=("all groups*",),
        parts=(
            "body/subscriptionGroupTable/CID_*",
            "body/subscriptionGroupTable/FILTERSRV_CONSUMER/",
            "body/subscriptionGroupTable/SELF_TEST_C_GROUP/",
            "body/subscriptionGroupTable/TOOLS_CONSUMER/",
        ),
    ),
    Allowed(
        "the setting `notifyConsumerIdsChangedEnable` of a group: members are always notified",
        names=("all groups*",),
        parts=("body/subscriptionGroupTable/silent/notifyConsumerIdsChangedEnable",),
    ),
    Allowed(
        "the disk usage by directory of the log",
        names=("runtime",),
        parts=("body/table/commitLogDiskRatio_*",),
    ),
    Allowed(
        "the map from groups to topics (`groupTopicMap`) in the answer with all offsets",
        names=("all offsets in the end",),
        parts=("body/groupTopicMap/",),
    ),
)
"""Features that exist there, and not here."""

ALLOWED = (*MEASURED, *CODES, *STRICTER, *RICHER, *ABSENT)


def unexpected(
    found: Iterable[Difference], rules: Iterable[Allowed] = ALLOWED
) -> Iterator[Difference]:
    """Return the differences that are not allowed."""
    return (each for each in found if not any(rule.covers(each) for rule in rules))


def unused(found: Iterable[Difference], rules: Iterable[Allowed] = ALLOWED) -> list[str]:
    """Rules that cover nothing that was found: what they say is so no more."""
    differences = list(found)
    return [rule.what for rule in rules if not any(map(rule.covers, differences))]
