"""A compaction by tasks leaves the files that the plugin's own run would have left."""

from __future__ import annotations

import shutil

import pytest
from compactedstores import both, files_of, many, open_store, put
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openstores import reads

from reput_compaction.job import plan
from reput_testing import ManualClock
from reput_tools.offline import LocalEngine

HOUR = 3_600_000
HERE = LocalEngine(1)
KEYS = st.sampled_from(["a", "b", "a b", "b a", "ключ", "k" * 40])
BODIES = st.just(b"") | st.binary(min_size=1, max_size=120)
ENTRY = st.tuples(KEYS, BODIES, st.integers(0, 2), st.sampled_from(["t", "u"]))
ROUND = st.tuples(st.lists(ENTRY, max_size=60), st.integers(0, 2 * HOUR))


@pytest.fixture
def small_tasks(monkeypatch):
    """Parts of the hashes, and tasks for each queue, however few messages there are."""
    monkeypatch.setattr(plan, "_ROWS_MIN", 8)


class Wide(LocalEngine):
    """One process, for which work is cut as if there were more."""

    def __init__(self, parallelism):
        super().__init__(1)
        self.parallelism = parallelism


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rounds=st.lists(ROUND, min_size=1, max_size=3),
    split_size=st.sampled_from([1, 200, 900, 5_000, None]),
    memory=st.sampled_from([65_536, 1 << 20]),
    parallelism=st.sampled_from([1, 5]),
)
@pytest.mark.costly
def test_the_files_are_the_same(
    tmp_path_factory, small_tasks, rounds, split_size, memory, parallelism
):
    root = str(tmp_path_factory.mktemp("store") / "store")
    clock, latest = ManualClock(), {}
    options = {"tombstone_retention_ms": HOUR, "offset_map_size": memory}
    for entries, passes in rounds:
        with open_store(root, clock, **options) as store:
            put(store, entries)
        for key, body, *queue in entries:
            latest[key, *queue] = body

        alone, tasks, expected, found = both(root, clock, Wide(parallelism), split_size, **options)

        assert tasks == alone
        assert found == expected
        clock.advance(passes)
    with open_store(root, clock, **options) as store:
        assert dict(living(store)) == {key: body for key, body in latest.items() if body}


def living(store):
    """Topic's latest bodies by (key, queue id, topic), where they are no tombstones."""
    found = {}
    for topic in ("t", "u"):
        for queue in range(3):
            for result in reads(store, topic, queue, 0, 5):
                assert result.holes == ()
                for view in result:
                    found[view.properties["KEYS"], queue, topic] = view.body
    return {key: body for key, body in found.items() if body}


@pytest.mark.costly
def test_many_messages_in_many_parts_and_many_tasks(tmp_path, small_tasks):
    root, clock = str(tmp_path / "store"), ManualClock()
    options = {"sizes": (20_000, 2_000), "offset_map_size": 65_536}
    with open_store(root, clock, **options) as store:
        put(store, many(9_000, 700))

    alone, tasks, expected, found = both(root, clock, Wide(4), 30_000, **options)

    assert tasks == alone
    assert sum(each.messages_before for each in tasks) == 9_000
    assert sum(each.messages_after for each in tasks) < 4_500
    assert found == expected


@pytest.mark.costly
def test_it_is_the_same_in_several_processes(tmp_path, small_tasks):
    root, clock = str(tmp_path / "store"), ManualClock()
    with open_store(root, clock) as store:
        put(store, many(600, 90))

    with LocalEngine(2) as engine:
        alone, tasks, expected, found = both(root, clock, engine, 20_000)

    assert tasks == alone
    assert found == expected


def test_tombstones_go_in_the_first_job_behind_their_time(tmp_path):
    clock, options = ManualClock(), {"tombstone_retention_ms": HOUR}
    with open_store(tmp_path, clock, **options) as store:
        put(store, [("a", b"x", 0), ("a", b"", 0), ("b", b"y", 0)])
        store.plugin("compaction").compact(engine=HERE)
        assert [view.body for view in store.read("t", 0, 0)] == [b"", b"y"]

        clock.advance(HOUR - 1)
        assert store.plugin("compaction").compact(engine=HERE) == []
        clock.advance(1)
        (result,) = store.plugin("compaction").compact(engine=HERE)

        assert (result.messages_before, result.messages_after) == (2, 1)
        assert [view.body for view in store.read("t", 0, 0)] == [b"y"]


def test_only_the_topics_that_are_named_are_compacted(tmp_path):
    with open_store(tmp_path / "store") as store:
        put(store, many(60, 9))

        results = store.plugin("compaction").compact(["u"], engine=HERE)

        assert {each.topic for each in results} == {"u"}
        assert store.plugin("compaction").compact([], engine=HERE) == []
        with pytest.raises(ValueError, match="'v' is not compacted; compacted topics: t, u"):
            store.plugin("compaction").compact(["t", "v"], engine=HERE)


def test_what_is_told_of_the_work_never_falls_and_ends_with_all_of_it(tmp_path):
    told = []
    with open_store(tmp_path / "store") as store:
        put(store, many(300, 50))

        store.plugin("compaction").compact(
            engine=HERE, split_size=2_000, progress=lambda done, total: told.append((done, total))
        )

    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 20_000


def test_messages_come_and_are_read_while_a_job_runs(tmp_path):
    with open_store(tmp_path / "store") as store:
        put(store, many(100, 9))
        before = living(store)

        class Engine(LocalEngine):
            def run(self, work, tasks, told=lambda size: None):
                put(store, [(f"new-{len(rounds)}", b"new", 0)])
                rounds.append(len(tasks))
                assert {key: value for key, value in living(store).items() if value != b"new"} == {
                    **before
                }
                return super().run(work, tasks, told)

        rounds = []
        store.plugin("compaction").compact(engine=Engine(1), split_size=1_000)

        assert len(rounds) == 4
        expected = before | {(f"new-{number}", 0, "t"): b"new" for number in range(4)}
        assert living(store) == expected
        assert all(info.max_queue_offset for info in store.plugin_objects["compaction"].extents())


def test_a_job_leaves_nothing_beside_the_files(tmp_path):
    with open_store(tmp_path / "store") as store:
        put(store, many(100, 9))
        before = set(files_of(tmp_path / "store"))

        store.plugin("compaction").compact(engine=HERE)

        after = set(files_of(tmp_path / "store"))
    assert not any("compacting" in name or "replacing" in name for name in after)
    assert {name.split("/")[0] for name in after} == {name.split("/")[0] for name in before}


def test_a_second_copy_of_the_store_is_not_touched(tmp_path):
    with open_store(tmp_path / "one") as store:
        put(store, many(100, 9))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    before = files_of(tmp_path / "one")

    with open_store(tmp_path / "two") as store:
        store.plugin("compaction").compact(engine=HERE)

    assert files_of(tmp_path / "one") == before
