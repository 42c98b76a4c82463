"""Index files that RocketMQ 4.8 wrote: searched as it searched them, and built again bit by bit."""

from __future__ import annotations

import shutil

import pytest

import reput

CLEAN = ["demo", "basic", "slow", "v6", "batch", "transaction", "delay", "ext"]
CRASHED = ["crash-clean-tail", "crash-garbage-tail"]


def options_of(golden_rows, case):
    (row,) = golden_rows(case, "config")
    index = {"slots_per_file": row["index_slots"], "items_per_file": row["index_max_items"]}
    return {"plugins": {"index"}, "config": {"index": index}}


def files_of(root):
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


def question(row):
    end = (1 << 63) - 1 if row["end"] == "max" else row["end"]
    return row["topic"], row["key"], row["begin"], end, row["max_count"]


def differing(store, rows):
    found = []
    for row in rows:
        answer = store.plugin("index").query_as_rocketmq(*question(row))
        offsets = [message.physical_offset for message in answer]
        if offsets != row["physical_offsets"]:
            found.append((row, offsets))
    return found


@pytest.mark.proof
@pytest.mark.parametrize("mode", ["r", "w"])
@pytest.mark.parametrize("case", [*CLEAN, "trimmed"])
@pytest.mark.costly
def test_every_query_is_answered_as_java_answers_it(case, mode, golden_store, golden_rows):
    rows = golden_rows(case, "query")
    if case != "demo":  # where all that was asked for is not there
        assert any(len(row["physical_offsets"]) > 1 for row in rows)

    # No options: files say themselves how large their parts are.
    with reput.open(golden_store(case), mode, plugins={"index"}) as store:
        assert differing(store, rows) == []


@pytest.mark.proof
@pytest.mark.parametrize(
    ("case", "window_size"),
    # With small windows the large store takes long, and shows what the small ones show.
    [
        (case, size)
        for case in (*CLEAN, *CRASHED)
        for size in (4096, 1 << 20)
        if (case, size) != ("demo", 4096)
    ],
)
def test_files_built_again_from_the_log_are_javas_byte_for_byte(
    case, window_size, golden_store, golden_rows, monkeypatch
):
    monkeypatch.setattr(reput.CommitLogConfig, "window_size", window_size)
    root, options = golden_store(case), options_of(golden_rows, case)
    javas = files_of(root)
    shutil.rmtree(root / "index")

    with reput.open(root, "w", **options) as store:
        assert store.wait_dispatched(60)
        assert differing(store, golden_rows(case, "query")) == []

    assert files_of(root) == javas


@pytest.mark.parametrize("case", ["basic", "slow"])
def test_files_of_java_are_kept_and_written_on(case, golden_store, golden_rows):
    """Opened for writing, a store of Java's keeps its files with their names."""
    root, options = golden_store(case), options_of(golden_rows, case)
    javas = {path.name: path.read_bytes() for path in (root / "index").iterdir()}
    message = reput.Message("later", b"body", keys="a b", properties={"UNIQ_KEY": "U1"})

    with reput.open(root, "w", **options) as store:
        assert store.wait_dispatched(60)
        kept = {path.name: path.read_bytes() for path in (root / "index").iterdir()}
        store.put(message)
        assert store.wait_dispatched(60)
        assert [len(store.query("later", key)) for key in ("a", "b", "U1", "c")] == [1, 1, 1, 0]

    assert kept == javas


@pytest.mark.parametrize(
    "case", ["crash-log-behind-queues", "crash-torn-record", "crash-bit-flip", "crash-no-derived"]
)
def test_after_a_crash_the_index_is_what_the_log_says(case, golden_store, golden_rows):
    """Java's own files point behind its log then; ours are those of a rebuild."""
    mended, rebuilt = golden_store(case), golden_store(case)
    shutil.rmtree(rebuilt / "index", ignore_errors=True)
    options = options_of(golden_rows, case)

    for root in (mended, rebuilt):
        with reput.open(root, "w", **options) as store:
            assert store.wait_dispatched(60)

    assert files_of(mended) == files_of(rebuilt)


@pytest.mark.proof
@pytest.mark.parametrize("case", ["basic", "slow", "v6", "transaction", "delay"])
@pytest.mark.costly
def test_exact_answers_are_those_of_java_without_the_collisions(case, golden_store, golden_rows):
    """Rows of all times with room for all: ours are the ones whose key is the one asked for."""
    checked = 0
    with reput.open(golden_store(case), "r", plugins={"index"}) as store:
        for row in golden_rows(case, "query"):
            if row["end"] != "max" or len(row["physical_offsets"]) >= row["max_count"]:
                continue
            topic, key, begin, end, _ = question(row)
            answer = store.query(topic, key, begin, end, oldest_first=True)
            expected = []
            for offset in dict.fromkeys(row["physical_offsets"]):
                message = store.get(offset)
                words = [
                    message.properties.get("UNIQ_KEY"),
                    *message.properties.get("KEYS", "").split(" "),
                ]
                if message.topic == topic and key in words and message.store_timestamp >= begin:
                    expected.append(offset)
            assert [message.physical_offset for message in answer] == expected
            assert answer.is_complete
            checked += len(expected)
    assert checked > 100


def test_the_checkpoint_tells_the_end_of_a_full_file_by_which_a_broker_may_go(
    golden_store, golden_rows
):
    """A log file begins in the ms in which the last full one ends, with keys that follow it."""
    import struct

    root, options = golden_store("basic"), options_of(golden_rows, "basic")
    shutil.rmtree(root / "index")
    (root / "checkpoint").unlink()

    with reput.open(root, "w", **options) as store:
        assert store.wait_dispatched(60)

    *_, safe, full, _ = files_of(root)
    found, last = (struct.unpack(">q", each[8:16])[0] for each in (safe, full))
    assert struct.unpack(">qqq", (root / "checkpoint").read_bytes()[:24])[2] == found
    with reput.open(root, "r", **options) as store:
        log = store.plugin("index").context.log
        times = [log.store_timestamp_at(base) for base in log.file_offsets]
    assert last in times
    assert found not in times
