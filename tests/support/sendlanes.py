"""Lanes of both engines, each over a store of its own; frames of sends that are nearly ordinary."""

from __future__ import annotations

import contextlib
import json
import struct

import attrs
from hypothesis import strategies as st

import reput
from reput_client.remoting import Command, HeaderKind, RequestCode, encode_frame
from reput_server.broker.send.fastpath import LaneSizes, SendFastPath, send_lane
from reput_server.broker.send.fastpathswitch import lane_facts

SIZES = LaneSizes(frame_max=1 << 20, header_max=1 << 17, body_max=64 << 10)
PLUGINS = frozenset({"consumequeue", "schedule", "transaction"})
FILE_SIZE = 1 << 28
TOPICS = {"orders": 4, "T" * 127: 2, "%RETRY%g": 1, "bad name": 9, "主题": 3}
ADDRESS = "127.0.0.1", 4_711
_TIMESTAMP = slice(56, 64)  # of a record


@attrs.frozen(eq=False)
class Place:
    """A lane, and the store that it puts into."""

    lane: object
    store: reput.Store

    def take(self, data, begin=0, address=ADDRESS):
        """What the lane answers, the records that it has written, and where its queues are."""
        before = self.store.log.max_physical_offset
        answers, end, count, unknown = self.lane.take(data, begin, address)
        size = self.store.log.max_physical_offset - before
        log = bytearray(self.store.log.read(before, size)) if size else bytearray()
        at = 0
        while at < len(log):
            log[at + _TIMESTAMP.start : at + _TIMESTAMP.stop] = bytes(8)
            at += int.from_bytes(log[at : at + 4], "big")
        following = dict(self.store.log.queue_offsets)
        return answers, end, count, unknown, bytes(log), following


@contextlib.contextmanager
def place_of(make, path, **sections):
    """A lane that ``make`` makes over a new store, with room for whatever comes."""
    config = {"commitlog": {"file_size": FILE_SIZE, **sections}}
    with reput.open(path, plugins=PLUGINS, config=config) as store:
        store.put(reput.Message("first", b""))
        appender = store.log._appender
        appender.move_record_limit(appender.file_limit)
        facts = lane_facts(store.direct_puts, "cluster", bytes([127, 0, 0, 1, 0, 0, 0, 9]))
        lane = make(store.direct_puts, *facts, SIZES)
        for topic, count in TOPICS.items():
            lane.allow(topic, count)
        yield Place(lane, store)


@contextlib.contextmanager
def both_places(path):
    """A lane of the engine that runs, and one of Python's."""
    with (
        place_of(send_lane, path / "engine") as one,
        place_of(SendFastPath, path / "python") as other,
    ):
        yield one, other


# --------------------------------------------------------------------------- frames

small = st.sampled_from(
    ["0", "1", "3", "4", "4095", "4096", "-1", "01", "+1", " 1", "", "١", "1.0"]
)
texts = st.sampled_from(
    [
        "",
        "a",
        "é",
        "标签",
        "\U0001f600",
        "\ufffd",
        '"',
        "\\",
        "\\ud",
        "\x7f",
        "\x1f",
        "\0",
        "/",
        "x" * 300,
    ]
) | st.text(max_size=8).filter(lambda text: text.isprintable())
keys = st.sampled_from(["7F00000112", "a b", "", 'a"b', "a\\b", "é", "~ !", "\x03", "\t"]) | texts
parts = st.one_of(
    keys.map(lambda key: f"UNIQ_KEY\x01{key}\x02"),
    st.sampled_from(
        [
            "TAGS\x01paid\x02",
            "WAIT\x01true\x02",
            "DELAY\x012\x02",
            "TRAN_MSG\x01true\x02",
            "NO_UNIQ_KEY\x01x\x02",
            "INNER_NUM\x011\x02",
            "CLUSTER\x01x\x02",
            "k\x01\x02",
            "__CRC32#\x01123\x02",
            "\x02",
            "big\x01" + "v" * 32_600 + "\x02",
        ]
    ),
    st.builds("{}\x01{}\x02".format, texts, texts),
)
properties = st.one_of(
    st.just("UNIQ_KEY\x01k1\x02WAIT\x01true\x02TAGS\x01tag\x02"),
    st.lists(parts, max_size=4).map("".join),
    st.lists(parts, max_size=3).map(lambda found: "".join(found)[:-1]),
)
topics = st.sampled_from([*TOPICS, "orders", "orders", "unknown", ""])
booleans = st.sampled_from(["false", "true", "False", ""])
_LETTERS = dict(
    zip(
        "abdefghijlm",
        [
            "producerGroup",
            "topic",
            "defaultTopicQueueNums",
            "queueId",
            "sysFlag",
            "bornTimestamp",
            "flag",
            "properties",
            "reconsumeTimes",
            "maxReconsumeTimes",
            "batch",
        ],
        strict=True,
    )
)
odd_fields = {
    "a": texts,
    "b": topics,
    "d": small,
    "e": small,
    "f": st.sampled_from(["0", "1", "4", "8", "12", "16", "32", "48", "-1", "x"]),
    "g": st.sampled_from(["0", "1700000000000", "9" * 18, "9" * 19, "-1", "", "1e3", "²"]),
    "h": small,
    "i": properties,
    "j": small,
    "l": small,
    "m": booleans,
}
USUAL = {
    "a": "producers",
    "b": "orders",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "UNIQ_KEY\x01k1\x02WAIT\x01true\x02TAGS\x01tag\x02",
    "j": "0",
    "k": "false",
    "m": "false",
}


@st.composite
def sends(draw):
    """One frame of a send, with up to three unusual fields."""
    fields = dict(USUAL)
    odd_count = draw(st.sampled_from([0, 0, 0, 1, 1, 3]))
    for name in draw(st.lists(st.sampled_from(sorted(odd_fields)), max_size=odd_count)):
        fields[name] = draw(odd_fields[name])
    if draw(st.integers(0, 9)) == 0:
        fields.pop(draw(st.sampled_from(sorted(fields))))
    if draw(st.integers(0, 9)) == 0:
        fields |= {f"x{number}": draw(texts) for number in range(draw(st.integers(1, 25)))}
    code = draw(st.sampled_from([310] * 6 + [10] * 3 + [11, 320]))
    if code == RequestCode.SEND_MESSAGE:
        fields = {_LETTERS.get(name, name): value for name, value in fields.items()}
    flag = draw(st.sampled_from([0] * 12 + [2, 2, 1, 3, 4, -1]))
    opaque = draw(st.integers(-(1 << 31), (1 << 31) - 1))
    bodies = [b"", b"a", b"body", b"body", b"body", b"x" * 65_536, b"x" * 65_537]
    body = draw(st.sampled_from(bodies))
    if draw(st.integers(0, 3)) == 0:
        return encode_frame(Command(code, fields, body, opaque, flag), HeaderKind.BINARY)
    return frame_of(draw(headers(code, fields, opaque, flag)), body)


def frame_of(header, body, kind=0):
    """A frame of a header as it is given."""
    return struct.pack(">iI", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


@st.composite
def headers(draw, code, fields, opaque, flag):
    """A JSON header in one of many ways."""
    members = {
        "code": code,
        "extFields": fields,
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    }
    odd = draw(st.integers(0, 15))
    if odd == 0:
        name = draw(st.sampled_from([*members, "remark", "more"]))
        values = [None, True, 1, -0, 1.5, "1", 1 << 31, -(1 << 31), 10**20, [], {}, {"a": 1}, "é"]
        members[name] = draw(st.sampled_from(values))
    elif odd == 1:
        for name in draw(st.sets(st.sampled_from(sorted(members)))):
            del members[name]
    names = draw(st.permutations(list(members))) if draw(st.booleans()) else list(members)
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r ")]))
    text = json.dumps(
        {name: members[name] for name in names},
        ensure_ascii=draw(st.booleans()),
        separators=separators,
    )
    for old, new in draw(
        st.lists(
            st.sampled_from(
                [
                    ('"code"', '"c\\u006fde"'),
                    ('"flag"', '"fl\\u0061g"'),
                    ('"flag"', '"opaque"'),
                    ('"e"', '"f"'),
                    ('"b"', '"\\u0062"'),
                    ("\\u0001", "\x01"),
                    ("/", "\\/"),
                    ("310", "0310"),
                    ("310", "310.0"),
                    ("310", "310e0"),
                    ("479", "-0"),
                    ("JAVA", "\\ud83d\\ude00"),
                    ("JAVA", "\\uD002"),
                    ("JAVA", "\\u6807"),
                    ("JAVA", "\\\\ud83d"),
                    ("JAVA", "\\q"),
                    ("JAVA", '\\b\\f\\n\\r\\t\\/\\"\\\\'),
                    ("}", "},"),
                    ("{", "{,"),
                    ("}", "} "),
                    ('"JSON"', "NaN"),
                ]
            ),
            max_size=1 if draw(st.integers(0, 3)) == 0 else 0,
        )
    ):
        text = text.replace(old, new, 1)
    return text.encode("utf-8", "surrogatepass")


@st.composite
def streams(draw):
    """Bytes of a connection: some frames, perhaps with other bytes at a place, or cut."""
    data = bytearray(b"".join(draw(st.lists(sends(), min_size=1, max_size=4))))
    if draw(st.integers(0, 3)) == 0:
        for _ in range(draw(st.integers(1, 3))):
            data[draw(st.integers(0, min(len(data), 600) - 1))] = draw(st.integers(0, 255))
    if draw(st.integers(0, 4)) == 0:
        del data[draw(st.integers(0, len(data))) :]
    return data if draw(st.booleans()) else bytes(data)
