"""Frames that are nearly right, and such as no client would send, for a server to live through.

Everything is drawn from one `random.Random`, be it a seeded one or one of Hypothesis.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

import attrs
import wirescript

from reput_client.remoting import Command, HeaderKind, RequestCode, encode_frame

NASTY = (
    "",
    "0",
    "-1",
    "1",
    str((1 << 31) - 1),
    str(1 << 31),
    str(-(1 << 31)),
    str((1 << 63) - 1),
    str(1 << 63),
    "9" * 5_000,
    "1_0",
    "0x10",
    "NaN",
    "1e5",
    "\u0663",
    "true",
    "null",
    "\x00",
    "\x01\x02",
    "../../../etc/passwd",
    "/",
    "a" * 300,
    "a" * 40_000,
    "\u00e4" * 20_000,
    "%RETRY%",
    "%RETRY%billing",
    "%DLQ%billing",
    "%LMQ%x",
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "rmq_sys_wheel_timer",
    "TBW102",
    "orders",
    "billing",
    "{}",
    "[" * 2_000,
    "||",
    "a || b ||",
    "*",
)
PROPERTIES = (
    "DELAY",
    "TIMER_DELIVER_MS",
    "TIMER_DELAY_SEC",
    "TRAN_MSG",
    "PGROUP",
    "REAL_TOPIC",
    "REAL_QID",
    "WAIT",
    "UNIQ_KEY",
    "KEYS",
    "TAGS",
    "INNER_MULTI_DISPATCH",
    "INNER_MULTI_QUEUE_OFFSET",
    "INNER_NUM",
    "REPLY_TO_CLIENT",
    "CLUSTER",
    "__CRC32#",
    "TRANSACTION_CHECK_TIMES",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "RETRY_TOPIC",
    "a",
)
WORDS = (
    "a",
    "1",
    "'x'",
    "NOT",
    "AND",
    "OR",
    "IN",
    "BETWEEN",
    "IS",
    "NULL",
    "(",
    ")",
    ",",
    ">",
    "=",
)
SIZES = (0, 1, 3, 4, 8, 255, 65_535, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)


def frames(chance: random.Random) -> bytes:
    """Return the bytes of one request, mutated; perhaps no frame at all."""
    command = chance.choice(wirescript.commands() + wirescript.pops())
    command = attrs.evolve(command, opaque=chance.randrange(1, 1 << 20))
    kind = chance.choice(tuple(HeaderKind))
    if command.code >= 1 << 15:  # a binary header has 16 bits for it
        kind = HeaderKind.JSON
    how = chance.choice(_WAYS)
    return how(chance, command, kind)


def _fields(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    fields = dict(command.fields)
    for _ in range(chance.randrange(1, 3)):
        if fields:
            name = chance.choice(sorted(fields))
            if chance.random() < 0.2:
                del fields[name]
            else:
                fields[name] = chance.choice(NASTY)
    return encode_frame(attrs.evolve(command, fields=fields), kind)


def _properties(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    pairs = []
    for _ in range(chance.randrange(1, 6)):
        value = chance.choice(NASTY)[:8_000]
        parts = chance.choice(PROPERTIES), chance.choice("\x01\x01\x01\x02"), value
        pairs.append("".join(parts))
    text = "\x02".join(pairs)
    fields = {"i": text} if "b" in command.fields else {"properties": text}
    flags = str(1 << chance.randrange(12))
    if "f" in command.fields:
        fields["f"] = flags
    elif "sysFlag" in command.fields:
        fields["sysFlag"] = flags
    return encode_frame(attrs.evolve(command, fields={**command.fields, **fields}), kind)


def _expression(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    count = chance.choice((1, 5, 50, 2_000, 20_000))
    text = chance.choice(
        (
            "(" * count + "a > 1" + ")" * count,
            "NOT " * count + "a IS NULL",
            " AND ".join(["a > 1"] * count),
            "a IN (" + ",".join(["'x'"] * count) + ")",
            " ".join(chance.choice(WORDS) for _ in range(min(count, 50))),
            "a > " + "9" * count,
        )
    )
    if chance.random() < 0.5:
        wanted = {"topic": "orders", "subString": text, "expressionType": "SQL92"}
        body = json.dumps({"subscriptionData": wanted}).encode()
        command = Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body)
    else:
        pull = wirescript.pull(subscription=text, expression_type="SQL92")
        command = Command.request(RequestCode.PULL_MESSAGE, pull)
    return encode_frame(command, kind)


def _json_body(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    """Another value at one place of a body that is JSON; else other bytes in it."""
    try:
        value = json.loads(command.body)
    except ValueError:
        return _body_bytes(chance, command, kind)
    other = chance.choice((None, True, -1, 1 << 70, 1.5, [], {}, [[]], {"a": {}}, "x" * 300, "/"))
    body = json.dumps(_replaced(chance, value, other)).encode()
    return encode_frame(attrs.evolve(command, body=body), kind)


def _replaced(chance: random.Random, value: object, other: object) -> object:
    if chance.random() < 0.3:
        return other
    if isinstance(value, dict) and value:
        name = chance.choice(sorted(value))
        return {**value, name: _replaced(chance, value[name], other)}
    if isinstance(value, list) and value:
        return [_replaced(chance, value[0], other), *value[1:]]
    return other


def _odd_body(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    count = chance.choice((10, 1_000, 50_000))
    body = chance.choice(
        (
            b"[" * count,
            b'{"a":' * count + b"1" + b"}" * count,
            b"{1:" * count + b"1" + b"}" * count,
            b'{"clientID":"c","producerDataSet":[' + b'{"groupName":"g"},' * count + b"{}]}",
            b'{"clientID":' + b"9" * count + b"}",
            b'{{"topic":"a","brokerName":"b","queueId":0}:' * min(count, 500),
            b'{"clientID":NaN}',
            b'"\\ud800"',
            b"\xff" * count,
            b"",
        )
    )
    return encode_frame(attrs.evolve(command, body=body), kind)


def _body_bytes(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    return encode_frame(attrs.evolve(command, body=_changed(chance, command.body)), kind)


def _frame_bytes(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    return _changed(chance, encode_frame(command, kind))


def _changed(chance: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        if found:
            found[chance.randrange(len(found))] = chance.randrange(256)
    if chance.random() < 0.2:
        del found[chance.randrange(len(found) + 1) :]
    if chance.random() < 0.1:
        found += bytes(chance.randrange(256) for _ in range(chance.randrange(40)))
    return bytes(found)


def _lengths(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    """A length of the frame, or of something in a binary header, that lies."""
    found = bytearray(encode_frame(command, kind))
    at = chance.choice((0, 4, 8, 17, 21, chance.randrange(max(1, len(found) - 4))))
    if at + 4 <= len(found):
        struct.pack_into(">I", found, at, chance.choice(SIZES))
    return bytes(found)


def _json_header(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    count = chance.choice((10, 2_000, 90_000))
    code = int(command.code)
    header = chance.choice(
        (
            b'{"code":%d,"extFields":{%s"a":""}}' % (code, b'"a":"",' * count),
            b'{"code":%d,"extFields":%s%s}' % (code, b"[" * count, b"]" * count),
            b'{"code":%d,"more":%s1%s}' % (code, b'{"a":' * count, b"}" * count),
            b'{"code":%d,"opaque":%s}' % (code, b"9" * count),
            b'{"code":%d,"flag":-1}' % code,
            b'{"code":%d,"flag":NaN}' % code,
            b'{"code":"%d"}' % code,
            b'{"code":%d,"extFields":{"topic":1e400,"queueId":true}}' % code,
            b'{"code":%d,"extFields":{"topic":{"a":1}}}' % code,
            b'{"code":%d,"remark":"%s"}' % (code, b"x" * count),
            b'{"code":%d,"language":[%s1]}' % (code, b"1," * count),
            b"[]",
            b"1",
            b"",
            b"\xff\xfe",
        )
    )
    return struct.pack(">iI", 4 + len(header), len(header)) + header


def _noise(chance: random.Random, command: Command, kind: HeaderKind) -> bytes:
    return bytes(chance.randrange(256) for _ in range(chance.randrange(80)))


_WAYS: tuple[Callable[[random.Random, Command, HeaderKind], bytes], ...] = (
    _fields,
    _fields,
    _properties,
    _expression,
    _json_body,
    _odd_body,
    _body_bytes,
    _frame_bytes,
    _lengths,
    _json_header,
    _noise,
)
