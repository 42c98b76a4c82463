"""What our server reads in another way than a broker 5.3.3, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

import attrs

Difference = tuple[str, str, list[Any], list[Any]]
"""Member, value, their answer and ours: each a code, and what was shown."""


@attrs.frozen
class Allowed:
    """Differences that are meant."""

    what: str
    members: tuple[str, ...]
    values: tuple[str, ...] = ("*",)
    is_taken_there: bool = True
    is_taken_here: bool = True

    def covers(self, difference: Difference) -> bool:
        """Whether a difference is this one."""
        member, value, theirs, ours = difference
        if (theirs[0] == 0) is not self.is_taken_there or (ours[0] == 0) is not self.is_taken_here:
            return False
        return _matches(member, self.members) and _matches(value, self.values)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern.replace("[", "[[]")) for pattern in patterns)


ALLOWED: Final = (
    # Taken in both, and shown in another way.
    Allowed(
        "what is missing, null or not known has a default here, and is null there",
        (
            "*.consumeType",
            "*.messageModel",
            "*.consumeFromWhere",
            "*.subString",
            "*.tagsSet",
            "*.codeSet",
            "*.expressionType",
            "topics: *.topicFilterType",
        ),
    ),
    Allowed(
        "a number with an exponent that stands for a text is written out",
        ("*",),
        ("1e1",),
    ),
    Allowed("filter classes are not offered", ("*.classFilterMode",)),
    Allowed(
        "versions of topics are compared as they were sent, without what was left out",
        ("registration: *.dataVersion*",),
    ),
    Allowed("a language that is not known is OTHER here, and null there", ("header: language",)),
    Allowed(
        "a number that is no language is OTHER here, and gets no answer there",
        ("header: language",),
        is_taken_there=False,
    ),
    # Taken here alone.
    Allowed(
        "a list that is null is empty",
        ("heartbeat: *", "locks: mqSet", "topics: topicConfigList"),
        ("null", "(missing)"),
        is_taken_there=False,
    ),
    Allowed(
        "members without a meaning here are not read",
        (
            "heartbeat: heartbeatFingerprint",
            "*.classFilterMode",
            "group: brokerId",
            "group: consumeFromMinEnable",
            "header: serializeTypeCurrentRPC",
        ),
        is_taken_there=False,
    ),
    Allowed(
        "a byte that is not UTF-8 is read as a question mark",
        ("heartbeat, written with",),
        ("a byte that is not UTF-8",),
        is_taken_there=False,
    ),
    Allowed(
        "the kind of tags may be left out",
        ("fields of new topic: topicFilterType",),
        ("(missing)", "null"),
        is_taken_there=False,
    ),
    Allowed(
        "bits of messages that have no meaning are kept",
        ("fields of send: sysFlag",),
        is_taken_there=False,
    ),
    Allowed(
        "a message for a topic whose name is a number with an exponent",
        ("fields of send: topic",),
        ("1e1",),
        is_taken_there=False,
    ),
    # Taken there alone.
    Allowed(
        "names that no client accepts are refused",
        ("heartbeat: *.groupName", "group: groupName"),
        is_taken_here=False,
    ),
    Allowed(
        "a queue has a topic and a broker, a topic has a name",
        ("locks: mqSet.0.*", "registration: *.topicName"),
        ("null", "(missing)"),
        is_taken_here=False,
    ),
    Allowed(
        "an object does not stand for a list, and a list or an empty text for no object",
        (
            "locks: mqSet",
            "*.attributes",
            "registration: topicConfigSerializeWrapper",
            "registration: *.dataVersion",
            "registration: filterServerList",
        ),
        is_taken_here=False,
    ),
    Allowed("a client has an id", ("heartbeat, written with",), ("an empty object",), True, False),
    Allowed(
        "topics without queues, and with permissions that mean nothing, are refused",
        (
            "*: *.perm",
            "*: *.readQueueNums",
            "*: *.writeQueueNums",
            "*: perm",
            "*: readQueueNums",
        ),
        is_taken_here=False,
    ),
    Allowed(
        "a field that may be left out is refused if it is not of its type; there it is passed over",
        (
            "fields of send: defaultTopicQueueNums",
            "fields of send: *econsumeTimes",
            "fields of new topic: topicSysFlag",
            "fields of broker: bodyCrc32",
        ),
        is_taken_here=False,
    ),
    Allowed("a producer has a group", ("fields of send: producerGroup",), ("*",), True, False),
    Allowed(
        "a body that is called packed, and is not, is refused",
        ("fields of broker: compressed",),
        is_taken_here=False,
    ),
    Allowed(
        "queues and offsets below zero are refused",
        ("fields of commit: *",),
        ("-1", '"-1"'),
        is_taken_here=False,
    ),
    # Refused in both, with another code.
    Allowed(
        "what is not valid in a batch, a commit or a list of topics has another code",
        ("fields of send: batch", "fields of commit: *", "topics: topicConfigList*"),
        is_taken_there=False,
        is_taken_here=False,
    ),
)


def unexpected(found: Iterable[Difference]) -> Iterator[Difference]:
    """What differs and may not."""
    return (each for each in found if not any(rule.covers(each) for rule in ALLOWED))


def unused(found: Iterable[Difference]) -> list[str]:
    """Rules that cover nothing: what they say is no longer so."""
    differences = list(found)
    return [rule.what for rule in ALLOWED if not any(map(rule.covers, differences))]
