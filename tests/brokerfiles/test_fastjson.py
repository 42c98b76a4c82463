"""What a broker 5.3.3 reads of its own files, recorded, is read here, and nothing else.

Each row of ``documents-5.3.3.json`` is a file, and what the broker's own classes have read of it by
``MixAll.file2String`` and ``RemotingSerializable.fromJson``; null where they fail or find nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reput_tools.brokerfiles import flag_of, integer_of, member_of, object_of, offsets_of, table_of

ROWS = json.loads(
    (Path(__file__).parents[1] / "golden" / "peers" / "documents-5.3.3.json").read_text("utf-8")
)
READ_HERE_ALONE = {
    "cbef": "a comment in front of a colon: only some of fastjson's deserializers take one",
    "pcom": "the same",
    "knum": "the name of a table's entry is a number without quotes",
    "kword": "the name of a table's entry is null",
    "gstr": "groupTopicMap, which follows from the other table, and is not read",
    "otnull": "null in place of the table",
    "verobj": "a data version that is not a time: it is counted up, and decides nothing",
}
QUEUES = range(-(1 << 31), 1 << 31)


def offsets(document: dict[str, Any]) -> dict[str, dict[str, int]]:
    table = table_of(document, "offsetTable")
    return {name: texts(offsets_of(table[name], name, QUEUES)) for name in table}


def texts(found: dict[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in found.items()}


def delays(document: dict[str, Any]) -> dict[str, int]:
    return texts(offsets_of(table_of(document, "offsetTable"), "offsetTable", QUEUES))


def topics(document: dict[str, Any]) -> dict[str, Any]:
    entries = list(table_of(document, "topicConfigTable").values())
    if not entries:
        return {}
    (entry,) = entries
    counts = {
        name: 16 if (found := integer_of(member_of(entry, name), 32)) is None else found
        for name in ("readQueueNums", "writeQueueNums")
    }
    perm = integer_of(member_of(entry, "perm"), 32)
    return {
        **counts,
        "perm": 6 if perm is None else perm,
        "order": bool(flag_of(member_of(entry, "order"))),
        "cleanup.policy": str(entry["attributes"]["cleanup.policy"]),
    }


READERS = {"offsets": offsets, "delays": delays, "topics": topics}


def read(row: dict[str, Any]) -> Any:
    try:
        return READERS[row["kind"]](object_of(row["data"].encode("latin-1")))
    except ValueError:
        return None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['kind']}-{row['name']}")
def test_a_document_is_read_as_a_broker_reads_it(row: dict[str, Any]):
    found = read(row)

    if row["name"] in READ_HERE_ALONE and row["read"] is None:
        assert found is not None
    elif row["name"] == "oneg":  # a broker keeps it, and no queue has such an offset
        assert found == {"t@g": {"1": 5}}
    else:
        assert found == row["read"]


def test_the_rows_have_each_thing_that_the_standard_does_not_allow():
    names = {row["name"] for row in ROWS if row["read"]}

    assert names >= {"bom", "nulbehind", "cfront", "commatail", "single", "bare", "under", "oneed"}
