from __future__ import annotations

import pytest

import reput
from reput.files import Disk
from reput.log import Progress, ProgressEntry, StateFile
from reput_testing import snapshot


def test_queues_that_were_damaged_are_derived_again(run, queue_store) -> None:
    path = queue_store(*(reput.Message("orders", b"x") for _ in range(500)))
    before = snapshot(path / "consumequeue")
    (queue,) = (path / "consumequeue").rglob("0" * 20)
    with open(queue, "r+b") as file:
        file.write(b"\x07" * 2000)
    assert snapshot(path / "consumequeue") != before

    run("backfill", path, "consumequeue", "--from-start")

    assert snapshot(path / "consumequeue") == before


def test_a_store_of_rocketmq_is_derived_again_though_it_was_closed(
    run, golden_store, golden_rows
) -> None:
    path = golden_store("basic")

    outcome = run("backfill", path, "consumequeue", "--from-start", "--json")

    assert outcome.json["start_offset"] == 0
    assert outcome.json["is_complete"] is True
    with reput.open(path, mode="r") as store:
        found = {
            (queue.topic, queue.queue_id): (queue.min_queue_offset, queue.max_queue_offset)
            for queue in store.queues()
        }
    assert found == {
        (row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"])
        for row in golden_rows("basic", "queue")
        if row["max_offset"]
    }


def test_what_was_done_while_the_store_was_being_opened_is_kept(
    run, queue_store, monkeypatch
) -> None:
    path = queue_store(*(reput.Message("orders", b"x" * 100) for _ in range(5000)))
    file = ProgressEntry(StateFile.of(str(path), Disk()), "consumequeue")
    end = file.load().physical_offset
    file.save(Progress(0))
    monkeypatch.setattr("reput.store.opening.writeropening._CATCH_UP_FLUSH_SECONDS", 0)

    def interrupt(done, total):
        if done > end // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reput.open(path, progress=interrupt)

    kept = ProgressEntry(StateFile(file.path, Disk()), "consumequeue").load().physical_offset
    assert end // 2 < kept <= end
    assert run("backfill", path, "consumequeue", "--json").json["start_offset"] == kept
