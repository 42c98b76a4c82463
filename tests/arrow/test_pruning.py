"""What leads to messages changes how much is read, and never what is found."""

from __future__ import annotations

import os
import random
import shutil

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.errors import ConfigError
from reput_arrow import scan
from reput_arrow.reader.pruning import queueplan
from reput_arrow.reader.readtasks import plan_tasks

pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_index")

CONFIG = {
    "commitlog": {"file_size": 65_536},
    "consumequeue": {"units_per_file": 40},
    "index": {"slots_per_file": 61, "items_per_file": 200},
}
COLUMNS = ["physical_offset", "topic", "queue_id", "queue_offset", "keys", "uniq_key"]
ROLLED_BACK, PREPARED = 0xC, 0x4


def message(number):
    """One of many, most of them of other queues; of 97 one is rolled back, one prepared."""
    rare = number % 41 == 7
    return reput.Message(
        "rare" if rare else f"topic-{number % 3}",
        b"%d " % number * (number * 7 % 40),
        queue_id=number % 2 if rare else number % 8,
        keys=[f"k{number}", f"tenth-{number // 10}", "everywhere"] if number % 5 else [],
        properties={"UNIQ_KEY": f"U{number}"} if number % 3 else {},
        sys_flag={11: ROLLED_BACK, 12: PREPARED}.get(number % 97, 0),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store with queues and an index, closed; nothing may change it."""
    root = tmp_path_factory.mktemp("pruned") / "store"
    with reput.open(root, plugins=("consumequeue", "index"), config=CONFIG) as store:
        for first in range(0, 2_000, 100):
            store.put_many([message(number) for number in range(first, first + 100)])
        store.wait_dispatched()
    return root


def rows_of(path, *, prunes=True, **options):
    found = scan(path, columns=COLUMNS, **options)
    selection = attrs.evolve(found.selection, prunes=prunes)
    return attrs.evolve(found, selection=selection).table().to_pylist()


def parts_of(path, **options):
    """What is read by its places, of all tasks."""
    tasks = plan_tasks(scan(path, **options).selection)
    return [task.part for task in tasks if task.part is not None]


def bytes_read(monkeypatch):
    """Bytes that are read from now on, by name of the log's file."""
    from reput_arrow.logs.arrowdisk import LocalDisk

    sizes = {}

    def spy(method, size_of):
        original = getattr(LocalDisk, method)

        def spied(self, descriptor, *given):
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            found = original(self, descriptor, *given)
            if os.path.basename(os.path.dirname(name)) == "commitlog":
                key = os.path.basename(name)
                sizes[key] = sizes.get(key, 0) + size_of(found)
            return found

        monkeypatch.setattr(LocalDisk, method, spied)

    spy("read", len)
    spy("read_into", int)
    spy("read_pieces", lambda found: sum(map(len, found[0])))
    return sizes


QUESTIONS = [
    {"topic": "rare"},
    {"topic": "rare", "queue": 1},
    {"topic": "topic-1", "queue": 4, "min_queue_offset": 50, "max_queue_offset": 60},
    {"topic": ["rare", "topic-2"], "queue": [0, 1], "min_queue_offset": 20, "max_queue_offset": 30},
    {"topic": "rare", "min_queue_offset": 30},
    {"topic": "rare", "max_queue_offset": 3},
    {"topic": "rare", "queue": 0, "min_queue_offset": 10_000},
    {"topic": "nobody"},
    {"topic": "../commitlog"},
    {"topic": "rare", "queue": 9},
    {"topic": "topic-1", "key": "k1234"},
    {"topic": ["rare", "topic-0", "topic-1", "topic-2"], "key": "tenth-120"},
    {"topic": "topic-0", "key": "everywhere"},
    {"topic": "topic-2", "key": "U1000"},
    {"topic": "topic-2", "key": "nothing"},
    {"topic": "topic-2", "key": "two words"},
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_answers_are_those_of_a_scan(made, question):
    assert rows_of(made, **question) == rows_of(made, **question, prunes=False)


def test_a_key_is_a_word_or_the_unique_key_of_what_was_not_rolled_back(made):
    with reput.open(made, "r", plugins=()) as store:
        every = [batch.message(row) for batch in store.scan() for row in range(len(batch))]
    wanted = [
        each.physical_offset
        for each in every
        if each.topic == "topic-0"
        and each.transaction not in (ROLLED_BACK, PREPARED)
        and "everywhere" in (each.properties.get("KEYS") or "").split()
    ]

    found = [row["physical_offset"] for row in rows_of(made, topic="topic-0", key="everywhere")]

    assert found == wanted
    assert 100 < len(found) < len(every) // 3


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A store of large messages, so that those of one queue stand far from each other."""
    root = tmp_path_factory.mktemp("wide") / "store"
    config = {"commitlog": {"file_size": 1 << 18}}
    config["index"] = {"slots_per_file": 1_000, "items_per_file": 5_000}
    with reput.open(root, plugins=("consumequeue", "index"), config=config) as store:
        for number in range(800):
            topic = "rare" if number % 180 == 100 else "often"
            keys = [f"k{number}", f"tenth-{number // 10}"]
            store.put(reput.Message(topic, b"x" * 4_000, queue_id=number % 2, keys=keys))
        store.wait_dispatched()
    return root


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ({"topic": "rare"}, 4),
        ({"topic": "rare", "queue": 0, "max_queue_offset": 2}, 2),
        ({"topic": "often", "queue": 1, "min_queue_offset": 150, "max_queue_offset": 153}, 3),
        ({"topic": "often", "key": "k333"}, 1),
        ({"topic": "often", "key": "tenth-50"}, 10),
        ({"topic": "often", "key": "nothing"}, 0),
    ],
    ids=str,
)
def test_files_that_cannot_match_are_not_read(wide, question, count, monkeypatch):
    rows = rows_of(wide, **question)
    wanted = {f"{row['physical_offset'] >> 18 << 18:020d}" for row in rows}
    sizes = bytes_read(monkeypatch)

    assert rows_of(wide, **question) == rows

    names = sorted(os.listdir(wide / "commitlog"))
    assert len(names) > 10
    assert len(rows) == count
    # The newest file tells where the log ends; of each file eight bytes are enough to see if it is
    # the newest one, and the first one's say what kind of log this is.
    assert {name for name, size in sizes.items() if size > 1_000} <= {*wanted, names[-1]}
    assert sum(sizes.get(name, 0) for name in wanted - {names[-1]}) <= 150_000


def test_few_messages_are_read_one_by_one_and_many_in_one_stretch(made, monkeypatch):
    (part,) = parts_of(made, topic="rare")
    assert {each.queue_id for each in part.queues} == {0, 1}
    assert parts_of(made, topic="topic-1") == []  # a third of the log: it is scanned

    monkeypatch.setattr(queueplan, "_PART_SIZE", 400)
    parts = parts_of(made, topic="rare")

    assert len(parts) > 5
    assert rows_of(made, topic="rare") == rows_of(made, topic="rare", prunes=False)


def test_many_messages_between_two_places_are_scanned_there_only(made, monkeypatch):
    asked = {"topic": "topic-1", "queue": [1, 4, 7], "min_queue_offset": 60, "max_queue_offset": 80}
    sizes = bytes_read(monkeypatch)

    found = rows_of(made, **asked)

    assert sum(sizes.values()) < 5 * 65_536
    assert found == rows_of(made, **asked, prunes=False)
    assert len(found) > 50


def test_a_key_without_a_topic_is_refused(made):
    with pytest.raises(ConfigError, match="topic="):
        scan(made, key="k1")


# --------------------------------------------------------------------------- damage


def files_below(directory):
    return sorted(
        os.path.join(where, name) for where, _, names in os.walk(directory) for name in names
    )


def garble(path, chance, size=16):
    """Overwrite some bytes of a file, at a place that ``chance`` decides."""
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(chance.randrange(max(end - size, 1)))
        file.write(chance.randbytes(size))


def clear(path, chance, size=200):
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(chance.randrange(max(end - size, 1)) // 20 * 20)
        file.write(bytes(size))


def cut(path, chance):
    os.truncate(path, chance.randrange(os.path.getsize(path)))


def remove(path, chance):
    os.unlink(path)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    directory=st.sampled_from(["consumequeue", "index"]),
    harms=st.lists(st.sampled_from([garble, clear, cut, remove]), min_size=1, max_size=4),
    is_brokers=st.booleans(),
)
@pytest.mark.costly
def test_whatever_stands_in_derived_files_the_answer_is_that_of_the_log(
    made, tmp_path_factory, seed, directory, harms, is_brokers
):
    chance = random.Random(seed)
    store = tmp_path_factory.mktemp("harmed") / "store"
    shutil.copytree(made, store)
    if is_brokers:
        shutil.rmtree(store / "reput")
    for harm in harms:
        paths = files_below(store / directory)
        if paths:
            harm(chance.choice(paths), chance)
    keyed = [question for question in QUESTIONS if ("key" in question) == (directory == "index")]

    for question in keyed:
        assert rows_of(store, **question) == rows_of(store, **question, prunes=False), question
    shutil.rmtree(store)


@pytest.mark.parametrize("number", [30, 137, 150, 199])
@pytest.mark.costly
def test_zeros_that_begin_in_the_last_field_of_an_item_do_not_end_its_chain(made, tmp_path, number):
    store = shutil.copytree(made, tmp_path / "store")
    items = 40 + CONFIG["index"]["slots_per_file"] * 4
    for path in files_below(store / "index"):
        with open(path, "r+b") as file:
            file.seek(items + number * 20 + 16)
            file.write(bytes(min(200, 4 + (199 - number) * 20)))

    for question in QUESTIONS:
        assert rows_of(store, **question) == rows_of(made, **question, prunes=False), question


@pytest.mark.parametrize("directory", ["consumequeue", "index", "reput"])
@pytest.mark.costly
def test_without_derived_files_the_log_answers(made, tmp_path, directory):
    store = shutil.copytree(made, tmp_path / "store")
    shutil.rmtree(store / directory)

    for question in QUESTIONS:
        assert rows_of(store, **question) == rows_of(made, **question, prunes=False), question


@pytest.mark.costly
def test_what_came_after_the_derived_files_is_found(made, tmp_path):
    store = shutil.copytree(made, tmp_path / "store")
    with reput.open(store, plugins=("consumequeue", "index")) as writer:
        for plugin in ("consumequeue", "index"):
            writer.suspend_plugin(plugin)
        writer.put_many([message(number) for number in range(900, 1_500)])

    for question in QUESTIONS:
        found = rows_of(store, **question)
        assert found == rows_of(store, **question, prunes=False), question
        assert len(found) >= len(rows_of(made, **question)), question


@pytest.mark.costly
def test_a_log_that_lost_its_head_is_read_as_far_as_it_goes(made, tmp_path):
    store = shutil.copytree(made, tmp_path / "store")
    for name in sorted(os.listdir(store / "commitlog"))[:3]:
        os.unlink(store / "commitlog" / name)

    for question in QUESTIONS:
        assert rows_of(store, **question) == rows_of(store, **question, prunes=False), question
    with reput.open(store, plugins=("consumequeue", "index")):
        pass  # which removes files of what is gone
    for question in QUESTIONS:
        assert rows_of(store, **question) == rows_of(store, **question, prunes=False), question


@pytest.mark.costly
def test_a_store_is_read_beside_its_writer(tmp_path):
    with reput.open(tmp_path / "store", plugins=("consumequeue", "index"), config=CONFIG) as store:
        for first in range(0, 2_000, 500):
            store.put_many([message(number) for number in range(first, first + 500)])
            for question in QUESTIONS:
                found = rows_of(tmp_path / "store", **question)
                assert found == rows_of(tmp_path / "store", **question, prunes=False), question
            store.wait_dispatched()


@pytest.mark.proof
@pytest.mark.parametrize("case", ["basic", "batch", "delay", "ext", "transaction", "trimmed", "v6"])
@pytest.mark.costly
def test_stores_of_rocketmq_answer_as_their_logs(golden_store, case):
    store = golden_store(case)
    rows = scan(store, columns=COLUMNS).table().to_pylist()
    for topic, queue_id in sorted({(row["topic"], row["queue_id"]) for row in rows}):
        for more in (
            {},
            {"queue": queue_id},
            {"queue": queue_id, "min_queue_offset": 1, "max_queue_offset": 3},
        ):
            assert rows_of(store, topic=topic, **more) == rows_of(
                store, topic=topic, **more, prunes=False
            )
    for row in rows[:: max(len(rows) // 10, 1)]:
        for key in {*row["keys"], row["uniq_key"]} - {None}:
            asked = {"topic": row["topic"], "key": key}
            assert rows_of(store, **asked) == rows_of(store, **asked, prunes=False)
