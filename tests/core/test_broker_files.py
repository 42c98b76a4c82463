"""Directories in which a broker keeps what reput does not write: refused, and nothing changes."""

from __future__ import annotations

import itertools
import pickle
import re
import tempfile
from pathlib import Path

import pytest
from brokerdirectories import HARMLESS, MARKED, RECORDED, filled, opened, snapshot, unpacked
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reput
from reput.errors import UnsupportedFilesError
from reput.files import Disk
from reput.log.recovery.checkpoint import Checkpoint
from reput.storefiles import BROKER_FILES, find_broker_files, is_known_name
from reput_tools.doctor import verify
from reput_tools.offline import lock_store


def kinds_of(root: Path) -> list[str]:
    disk = Disk().at(str(root))
    return [
        each.row.kind for each in find_broker_files(str(root), disk, disk.list_names(str(root)))
    ]


@pytest.mark.parametrize("kind", RECORDED)
def test_a_recorded_directory_is_refused_and_no_byte_of_it_changes(kind, tmp_path):
    root = unpacked(RECORDED[kind], tmp_path)
    before = snapshot(root)

    with pytest.raises(UnsupportedFilesError) as raised:
        reput.open(root, "w")

    assert snapshot(root) == before
    (row,) = [each for each in BROKER_FILES if each.kind == kind]
    assert row.what in raised.value.found
    assert row.step in str(raised.value)


@pytest.mark.parametrize("kind", RECORDED)
def test_a_recorded_directory_is_read_and_says_what_it_cannot_show(kind, tmp_path):
    root = unpacked(RECORDED[kind], tmp_path)
    before = snapshot(root)

    with reput.open(root, "r") as store:
        count = sum(len(batch) for batch in store.scan())
        problems = store.problems

    assert count > 200
    (row,) = [each for each in BROKER_FILES if each.kind == kind]
    if row.unseen:
        assert any(row.unseen in problem for problem in problems)
    else:
        assert problems == ()
    assert snapshot(root) == before


def test_the_default_of_5_5_is_opened_for_writing(tmp_path):
    root = unpacked("rocketmq-5.5.0/default", tmp_path)

    def noted():
        return Checkpoint.load(str(root / "checkpoint"), Disk()).queues_offset

    with reput.open(root, "r", plugins=[]) as store:
        brokers = max(int(batch.physical_offset[-1]) for batch in store.scan())
    with open(root / "checkpoint", "r+b") as file:  # as a broker of 5.5 does every minute
        file.seek(40)
        file.write(brokers.to_bytes(8, "big"))
    assert verify(root).findings == ()
    with reput.open(root, "w", plugins=[]) as store:  # queues are flushed as far as before
        store.put(reput.Message("orders", b"without queues"))
    assert noted() == brokers
    with reput.open(root, "w", plugins=["consumequeue"]) as store:
        receipt = store.put(reput.Message("orders", b"one more"))
    assert noted() == receipt.physical_offset

    with reput.open(root, "r", plugins=["consumequeue"]) as store:
        assert store.get(receipt.physical_offset).body == b"one more"
        assert store.problems == ()


def test_the_checkpoint_covers_no_unit_that_an_opening_cuts(tmp_path):
    """A broker dispatches from the checkpoint's times, if the writer is killed then."""
    times = itertools.count(1_000_000, 10_000)
    root, seen = tmp_path / "store", []

    class SeenPlugin(reput.Plugin):
        name = "seen"
        runs_after = frozenset({"consumequeue"})

        @reput.hookimpl
        def reput_open(self, context):
            unit = (root / "consumequeue" / "T" / "0" / f"{0:020d}").read_bytes()[400:420]
            seen.append((Checkpoint.load(str(root / "checkpoint"), Disk()), any(unit)))

    with reput.open(root, plugins=["consumequeue"], clock=times.__next__) as store:
        receipts = []
        for number in range(40):
            receipts.append(store.put(reput.Message("T", b"x", queue_id=0)))
            if number == 19:
                store.wait_dispatched()
                store.flush()
                early = (root / "reput" / "state").read_bytes()
    (root / "reput" / "state").write_bytes(early)  # a broker leaves it as it is
    (root / "abort").touch()
    before = Checkpoint.load(str(root / "checkpoint"), Disk())

    with reput.open(root, plugins=["consumequeue", SeenPlugin()]) as store:
        first = receipts[20].physical_offset
        time = store.get(first).store_timestamp

    (found, has_unit) = seen[0]
    assert not has_unit
    assert (found.queues_timestamp, found.queues_offset) == (time, first)
    assert before.queues_timestamp > time
    assert Checkpoint.load(str(root / "checkpoint"), Disk()) == before


@pytest.mark.parametrize("case", MARKED)
def test_files_that_are_not_written_are_found_and_refused(case, tmp_path):
    kind, mark = MARKED[case]
    root = filled(tmp_path / "store")
    mark(root)
    before = snapshot(root)

    with pytest.raises(UnsupportedFilesError):
        reput.open(root, "w")
    with pytest.raises(UnsupportedFilesError), lock_store(root):
        pass

    assert kinds_of(root)[0] == kind
    assert snapshot(root) == before
    with reput.open(root, "r") as store:
        assert len(list(store.scan())) == 1
        shows_all = {"dledger", "rocksdb-queues"}
        assert bool(store.problems) == (kind not in shows_all)
    assert snapshot(root) == before


@pytest.mark.parametrize("case", HARMLESS)
def test_files_that_only_look_similar_prevent_no_write(case, tmp_path):
    root = filled(tmp_path / "store")
    before = {*root.rglob("*")}
    HARMLESS[case](root)
    added = {each: each.read_bytes() for each in {*root.rglob("*")} - before if each.is_file()}

    with reput.open(root, "w", plugins=["consumequeue"]) as store:
        store.put(reput.Message("orders", b"one more"))

    assert added
    assert {each: each.read_bytes() for each in added} == added
    with reput.open(root, "r") as store:
        assert store.log.max_physical_offset > 0
        assert sum(len(batch) for batch in store.scan()) == 6


def test_settings_in_rocksdb_of_an_unknown_kind_are_a_problem_of_readers(tmp_path):
    root = filled(tmp_path / "store")
    HARMLESS["settings in RocksDB"](root)
    (root / "config" / "rdb").rename(root / "config" / "later")

    with reput.open(root, "r") as store:
        (problem,) = store.problems

    assert problem.startswith("config/later/CURRENT: settings in RocksDB")


def test_a_link_in_place_of_a_brokers_directory_is_not_followed(tmp_path):
    root = filled(tmp_path / "store")
    (tmp_path / "elsewhere").mkdir()
    (root / "batchconsumequeue").symlink_to(tmp_path / "elsewhere")
    before = snapshot(root)

    with pytest.raises(reput.errors.UnsafePathError):
        reput.open(root, "w")
    with reput.open(root, "r") as store:
        assert any("batchconsumequeue" in problem for problem in store.problems)

    assert snapshot(root) == before


@pytest.mark.parametrize("link", ["config/topics", "batchconsumequeue", "dledger-a"])
def test_a_link_hides_no_message_of_dledger(link, tmp_path):
    root = unpacked("dledger/5.3.3-mixed", tmp_path)
    (root / link).symlink_to(tmp_path)

    with reput.open(root, "r") as store:
        assert sum(len(batch) for batch in store.scan()) == 600
        assert any(link in problem for problem in store.problems)
    with pytest.raises((UnsupportedFilesError, reput.errors.UnsafePathError)):
        reput.open(root, "w")


def test_the_error_keeps_its_facts_in_another_process():
    error = UnsupportedFilesError("/store", "a/b: queues", "it would break", "read it")

    again = pickle.loads(pickle.dumps(error))

    assert str(again) == str(error)


def test_each_row_has_a_kind_of_its_own_and_says_all(tmp_path):
    rows = BROKER_FILES

    assert len({row.kind for row in rows}) == len(rows)
    assert all(row.what and (row.step or not row.harm) for row in rows)
    assert {kind for kind, _ in MARKED.values()} == {row.kind for row in rows if row.harm}
    assert is_known_name("timerwheel.7")
    assert not is_known_name("timerwheel.tmp")


PARTS = ["consumequeue", "batchconsumequeue", "dledger-n0", "rocksdbstore", "config", "index"]
NAMES = st.sampled_from(
    ["CURRENT", "000004.log", "000009.sst", "data", "currterm", "orders", "rdb", "topics.json"]
) | st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
PATHS = st.tuples(st.sampled_from([*PARTS, ""]), NAMES, st.sampled_from(["", "CURRENT", "0"]))
CONTENTS = st.sampled_from([b"", b"x", b'{"topicConfigTable":{"a":{"attributes":{"new":"1"}}}}'])


@settings(deadline=None, max_examples=40)
@example({("dledger-n0", "currterm", "CURRENT"): b""})
@given(st.dictionaries(PATHS, CONTENTS, max_size=4))
@pytest.mark.costly
def test_unknown_files_are_refused_without_a_change_or_left_as_they_are(files):
    with tempfile.TemporaryDirectory() as folder:
        root = filled(Path(folder) / "store")
        # What plugins own is theirs to change.
        taken = {"commitlog", "reput", "lock", "abort", "checkpoint"}
        added = {}
        for (part, name, below), data in files.items():
            path = root.joinpath(*filter(None, (part, name, below)))
            if part or name not in taken:
                try:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                except (FileExistsError, NotADirectoryError, IsADirectoryError):
                    continue
                added[path] = data
        before = snapshot(root)

        try:
            store = opened(root)
        except UnsupportedFilesError:
            assert snapshot(root) == before
            assert {*kinds_of(root)} & {row.kind for row in BROKER_FILES if row.harm}
            return
        with store:
            store.put(reput.Message("orders", b"one more"))
        for path, data in added.items():
            assert path.read_bytes() == data


def test_the_page_has_each_kind_of_files():
    page = (Path(__file__).parents[2] / "docs/compatibility.md").read_text()

    for row in BROKER_FILES:
        options = re.findall(r"[a-zA-Z.]+=\w+|\w+(?:Enable|Flush)\b", row.what)
        assert options or row.kind in {"dledger", "rocksdb-settings"}
        assert [option for option in options if f"`{option}`" not in page] == []


def test_two_marks_are_both_named(tmp_path):
    root = filled(tmp_path / "store")
    MARKED["batch queues"][1](root)
    MARKED["queues in RocksDB"][1](root)

    with pytest.raises(UnsupportedFilesError) as raised:
        reput.open(root, "w")

    assert "batchconsumequeue/orders" in raised.value.found
    assert "consumequeue/CURRENT" in raised.value.found
