"""`reput diff`: two stores against a model, golden stores against copies of them."""

from __future__ import annotations

import collections
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from commands import Outcome, commands
from hypothesis import given, settings
from hypothesis import strategies as st
from reportedstore import NOW, make_store
from statefiles import change_manifest

import reput
from reput import Message
from reput_tools.doctor.comparison import messages as matching
from reput_tools.doctor.comparison.rows import matched
from reput_tools.doctor.comparison.storediff import StoreDiff
from reput_tools.doctor.comparison.stores import compare_stores

CONFIG = {"commitlog": {"file_size": 8_192}}


@pytest.fixture
def run() -> Iterator[Callable[..., Outcome]]:
    with commands() as run:
        yield run


class Put(NamedTuple):
    """A message of the model."""

    topic: str
    queue_id: int
    body: bytes
    tags: str
    prepared: bool


def write(path: Path, puts: list[Put], *, store_timestamp: int = NOW) -> None:
    with reput.open(path, plugins=(), config=CONFIG, clock=lambda: store_timestamp) as store:
        for put in puts:
            properties = {"TAGS": put.tags} if put.tags else {}
            store.put(
                Message(
                    topic=put.topic,
                    queue_id=put.queue_id,
                    body=put.body,
                    properties=properties,
                    born_timestamp=1,
                    sys_flag=0x4 if put.prepared else 0,
                )
            )


def keyed(puts: list[Put]) -> dict[tuple[str, int, bool, int], Put]:
    """The messages by topic, queue, whether they are in it, and ordinal."""
    counts = collections.Counter[tuple[str, int, bool]]()
    found = {}
    for put in puts:
        key = put.topic, put.queue_id, put.prepared
        found[*key, counts[key]] = put
        counts[key] += 1
    return found


def check(found: StoreDiff, a: list[Put], b: list[Put]) -> None:
    own, its = keyed(a), keyed(b)
    changed = {key for key in own.keys() & its.keys() if own[key] != its[key]}
    assert found.equal_count == len(own.keys() & its.keys()) - len(changed)
    assert found.changed_count == len(changed)
    assert (found.only_in_a, found.only_in_b) == (
        len(own.keys() - its.keys()),
        len(its.keys() - own.keys()),
    )
    missing = {
        side: {
            (each.topic, each.queue_id, not each.in_queue, offset)
            for each in found.missing
            if each.side == side
            for offset in range(each.first, each.last + 1)
        }
        for side in "ab"
    }
    assert missing == {"a": own.keys() - its.keys(), "b": its.keys() - own.keys()}
    assert found.fields.get("body", 0) == sum(own[key].body != its[key].body for key in changed)
    assert found.fields.get("properties", 0) == sum(
        own[key].tags != its[key].tags for key in changed
    )
    assert set(found.fields) <= {"body", "body_crc", "properties"}
    assert found.a.message_count == len(a)
    assert found.b.message_count == len(b)
    queues = {key[:2] for key in own.keys() ^ its.keys() if not key[2]}
    assert {(each.topic, each.queue_id) for each in found.queues} == queues
    assert found.is_equal == (own == its)


puts = st.builds(
    Put,
    topic=st.sampled_from(["orders", "audit"]),
    queue_id=st.integers(0, 2),
    body=st.binary(max_size=8) | st.binary(min_size=900, max_size=1_000),
    tags=st.sampled_from(["", "a", "b"]),
    prepared=st.sampled_from([False] * 5 + [True]),
)


@st.composite
def two_lists(draw: st.DrawFn) -> tuple[list[Put], list[Put]]:
    """A list, and another that was made of it: parts dropped, changed, put in, put elsewhere."""
    own = draw(st.lists(puts, max_size=60))
    its = list(own)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, max(len(its), 1)))
        kind = draw(st.sampled_from(["drop", "cut", "add", "change", "by queue"]))
        if kind == "drop":
            del its[place : place + draw(st.integers(1, 10))]
        elif kind == "cut":
            del its[place:]
        elif kind == "add":
            its[place:place] = draw(st.lists(puts, max_size=20))
        elif kind == "change" and place < len(its):
            its[place] = its[place]._replace(body=draw(st.binary(max_size=8)))
        elif kind == "by queue":
            its.sort(key=lambda put: (put.topic, put.queue_id))
    return own, its


@given(two_lists(), st.sampled_from([3, 1_000_000]), st.sampled_from([0, 1 << 16]))
@settings(max_examples=30)
def test_what_differs_is_what_the_model_says(
    lists: tuple[list[Put], list[Put]], waiting_max: int, few: int
) -> None:
    a, b = lists
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_FEW", few)
        write(Path(directory) / "a", a)
        write(Path(directory) / "b", b)

        found = compare_stores(
            Path(directory) / "a", Path(directory) / "b", waiting_max=waiting_max
        )

    check(found, a, b)


def test_messages_at_other_places_are_no_difference_unless_asked_for(tmp_path: Path) -> None:
    ones = [Put("t", number % 2, b"%d" % number, "", False) for number in range(20)]
    write(tmp_path / "a", ones)
    write(tmp_path / "b", sorted(ones, key=lambda put: put.queue_id))

    plain = compare_stores(tmp_path / "a", tmp_path / "b")
    physical = compare_stores(tmp_path / "a", tmp_path / "b", physical=True)

    assert plain.is_equal
    # The first message of queue 0 and the last of queue 1 stand where they stood.
    assert plain.moved_count == 18
    assert (physical.is_equal, physical.changed_count) == (False, 18)
    assert physical.fields == {"physical_offset": 18}


def test_what_is_changed_is_not_counted_as_moved(tmp_path: Path) -> None:
    write(tmp_path / "a", [Put("t", 0, b"first", "", False), Put("t", 1, b"x", "", False)])
    write(tmp_path / "b", [Put("t", 0, b"other one", "", False), Put("t", 1, b"x", "", False)])

    found = compare_stores(tmp_path / "a", tmp_path / "b", physical=False)

    assert (found.moved_count, found.equal_count, found.changed_count) == (1, 1, 1)
    write(tmp_path / "c", [Put("t", 1, b"x", "", False), Put("t", 0, b"other one", "", False)])
    assert compare_stores(tmp_path / "a", tmp_path / "c").moved_count == 1


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=30),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=30),
)
def test_rows_match_one_by_one_in_their_order(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    def rows(keys: list[tuple[int, int]]) -> Any:
        made = [(code, offset, place, 1) for place, (code, offset) in enumerate(keys)]
        return np.array(made, np.int64).reshape(-1, 4)

    own, its = matched(rows(a), rows(b))

    places = collections.defaultdict[tuple[int, int], list[int]](list)
    for place, key in enumerate(b):
        places[key].append(place)
    expected = [(place, places[key].pop(0)) for place, key in enumerate(a) if places[key]]
    assert list(zip(own.tolist(), its.tolist(), strict=True)) == expected


def test_fields_that_are_to_be_ignored_are(tmp_path: Path) -> None:
    write(tmp_path / "a", [Put("t", 0, b"x", "", False)])
    write(tmp_path / "b", [Put("t", 0, b"x", "", False)], store_timestamp=NOW + 5)

    assert compare_stores(tmp_path / "a", tmp_path / "b").fields == {"store_timestamp": 1}
    assert compare_stores(tmp_path / "a", tmp_path / "b", ignored=["store_timestamp"]).is_equal
    with pytest.raises(ValueError, match="not a field of a message"):
        compare_stores(tmp_path / "a", tmp_path / "b", ignored=["colour"])


# ---------------------------------------------------------------------- what RocketMQ wrote


@pytest.mark.parametrize(
    "case", ["basic", "v6", "batch", "transaction", "trimmed", "delay", "ext", "crash-bit-flip"]
)
def test_a_copy_is_equal_with_its_derived_files(
    case: str, golden_store: Callable[[str], Path], tmp_path: Path
) -> None:
    path = golden_store(case)
    shutil.copytree(path, tmp_path / "copy")
    for index in sorted((tmp_path / "copy" / "index").glob("*")):  # named by the clock
        index.rename(index.with_name(f"3{index.name[1:]}"))

    found = compare_stores(path, tmp_path / "copy", physical=True)

    assert found.is_equal
    assert not found.not_compared
    assert {"consumequeue", "index"} <= set(found.files_compared)
    assert found.equal_count > 100


def test_one_byte_of_a_derived_file_is_found(
    golden_store: Callable[[str], Path], tmp_path: Path
) -> None:
    path = golden_store("basic")
    shutil.copytree(path, tmp_path / "copy")
    queue = next((tmp_path / "copy" / "consumequeue").rglob("00000000000000000000"))
    data = bytearray(queue.read_bytes())
    data[107] ^= 1
    queue.write_bytes(data)
    next((tmp_path / "copy" / "index").iterdir()).unlink()

    found = compare_stores(path, tmp_path / "copy")

    by_name = {each.file: each for each in found.files}
    assert by_name[str(queue.relative_to(tmp_path / "copy"))].position == 107
    assert [each.reason for each in found.files if each.file.startswith("index")] == ["only in a"]
    assert not found.is_equal


@pytest.mark.parametrize("case", ["basic", "v6", "transaction"])
def test_each_field_of_a_record_is_named(
    case: str,
    golden_store: Callable[[str], Path],
    golden_rows: Callable[[str, str], list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    path = golden_store(case)
    puts = [put for put in golden_rows(case, "put") if put["body"] and put["properties"]]
    found = {}

    for name, at in {"flag": 19, "born_timestamp": 47, "born_host": 49, "body": -1}.items():
        put = puts[len(found) + 3]
        copy = tmp_path / name
        shutil.copytree(path, copy)
        record = put["size"] - len(put["properties"].encode()) - 2 - len(put["topic"]) - 1
        position = at if at >= 0 else record - 1
        base, place = divmod(put["physical_offset"], 65_536)
        log = copy / "commitlog" / f"{base * 65_536:020d}"
        data = bytearray(log.read_bytes())
        data[place + position] ^= 1
        log.write_bytes(data)
        diff = compare_stores(path, copy)
        [changed] = diff.changed
        assert (changed.topic, changed.queue_id) == (put["topic"], put["queue_id"])
        assert changed.physical_offset_a == put["physical_offset"]
        found[name] = changed.fields

    assert found == {name: (name,) for name in found}


def test_the_end_that_one_store_lacks_is_named(
    golden_store: Callable[[str], Path], golden_rows: Callable[[str, str], list[dict[str, Any]]]
) -> None:
    whole, cut = golden_store("basic"), golden_store("basic")
    last = sorted((cut / "commitlog").iterdir())[-1]
    lost = [put for put in golden_rows("basic", "put") if put["physical_offset"] >= int(last.name)]
    last.unlink()

    found = compare_stores(whole, cut)

    assert (found.only_in_a, found.only_in_b, found.changed_count) == (len(lost), 0, 0)
    assert {(each.topic, each.queue_id) for each in found.queues} == {
        (put["topic"], put["queue_id"]) for put in lost
    }
    assert any("reput verify" in each for each in found.not_compared)


def test_damage_in_one_store_is_messages_that_it_lacks(
    golden_store: Callable[[str], Path], golden_rows: Callable[[str, str], list[dict[str, Any]]]
) -> None:
    whole, damaged = golden_store("basic"), golden_store("basic")
    put = golden_rows("basic", "put")[40]
    log = damaged / "commitlog" / f"{put['physical_offset'] // 65_536 * 65_536:020d}"
    data = bytearray(log.read_bytes())
    place = put["physical_offset"] % 65_536
    data[place : place + 8] = b"\xff" * 8
    log.write_bytes(data)

    found = compare_stores(whole, damaged)

    [missing] = found.missing
    assert (missing.side, missing.topic, missing.first) == ("a", put["topic"], put["queue_offset"])
    assert (found.b.damage_count, found.b.damaged[0][0]) == (1, put["physical_offset"])
    assert found.a.damage_count == 0


# ---------------------------------------------------------------------- beside the messages


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    make_store(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return tmp_path / "a", tmp_path / "b"


def test_offsets_and_options_that_differ_are_named(pair: tuple[Path, Path]) -> None:
    a, b = pair
    path = b / "config" / "consumerOffset.json"
    path.write_text(path.read_text().replace("0:60", "0:61"))
    (b / "config" / "delayOffset.json").unlink()
    change_manifest(b, lambda text: text.replace(b'"plugins": []', b'"plugins": ["index"]'))

    found = compare_stores(a, b)

    values = {(each.file, each.name): (each.a, each.b) for each in found.values}
    assert values["config/consumerOffset.json", "offsetTable.orders@shop.0"] == ("60", "61")
    assert values["config/delayOffset.json", ""][1] is None
    assert [(each.name, each.a, each.b) for each in found.settings] == [
        ("plugins", "[]", '["index"]')
    ]
    assert not found.is_equal


def test_how_often_a_file_was_written_is_no_difference(pair: tuple[Path, Path]) -> None:
    for path, counter in zip(pair, (1, 2), strict=True):
        file = path / "config" / "topics.json"
        version = {"counter": counter}
        file.write_text(json.dumps({"dataVersion": version, "topicConfigTable": {}}))

    assert compare_stores(*pair).is_equal


def test_damaged_notes_are_said_and_the_rest_is_compared(pair: tuple[Path, Path]) -> None:
    a, b = pair
    (b / "reput" / "state").write_bytes(b"{")
    (b / "config" / "consumerOffset.json").write_bytes(b"{")

    found = compare_stores(a, b)

    assert any("reput/state" in each for each in found.b.problems)
    assert any("consumerOffset.json" in each for each in found.b.problems)
    assert found.equal_count == found.a.message_count


def test_codes_are_those_of_diff(
    pair: tuple[Path, Path], tmp_path: Path, run: Callable[..., Outcome]
) -> None:
    a, b = pair

    assert run("diff", a, b).code == 0
    with reput.open(b, plugins=()) as store:
        store.put(Message(topic="new", body=b"x"))
    different = run("diff", a, b)
    document = run("diff", a, b, "--json")

    assert different.code == document.code == 1
    assert "The stores are different." in different.out
    assert "\x1b" not in different.out
    assert document.json["equal"] is False
    assert document.json["missing"][0]["topic"] == "new"
    assert run("diff", a, tmp_path / "none").code == 3
    assert run("diff", a, b, "--ignore", "colour").code == 2


def test_empty_stores_are_equal(tmp_path: Path) -> None:
    for name in "ab":
        write(tmp_path / name, [])

    assert compare_stores(tmp_path / "a", tmp_path / "b").is_equal


def test_beside_a_writer_what_was_there_is_compared(tmp_path: Path) -> None:
    ones = [Put("t", 0, b"%d" % number, "", False) for number in range(9)]
    write(tmp_path / "a", ones)
    with reput.open(tmp_path / "b", plugins=(), config=CONFIG, clock=lambda: NOW) as store:
        for put in ones:
            store.put(Message(topic="t", body=put.body, born_timestamp=1))

        found = compare_stores(tmp_path / "a", tmp_path / "b")

    assert found.is_equal
    assert (found.a.is_open, found.b.is_open) == (False, True)


def test_nothing_is_left_in_either_store(pair: tuple[Path, Path]) -> None:
    before = [sorted(os.walk(path)) for path in pair]

    compare_stores(*pair, waiting_max=1)

    assert [sorted(os.walk(path)) for path in pair] == before


def test_damaged_stores_are_equal_only_in_what_can_be_read(tmp_path, run):
    a, b = tmp_path / "a", tmp_path / "b"
    with reput.open(a, plugins=(), config={"commitlog": {"file_size": 8_192}}) as store:
        for _ in range(9):
            receipt = store.put(Message("t", b"x" * 100))
    path = a / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[receipt.size * 3 + 6] ^= 1
    path.write_bytes(data)
    shutil.copytree(a, b)

    outcome = run("diff", a, b)

    assert "The stores are equal in what can be read." in outcome.out
