"""The next window is read ahead, with the columns that the window before was asked for."""

from __future__ import annotations

import numpy as np
import pytest

import reput

WINDOW = 1 << 16

pytestmark = pytest.mark.sizes(commitlog={"window_size": WINDOW})


@pytest.fixture
def log(tmp_path):
    with reput.open(tmp_path / "store", plugins=[]) as store:
        store.put_many(
            [reput.Message("T", b"x" * 900, tags=f"t{n}", keys=f"k{n % 50}") for n in range(600)]
        )
        yield store.log


def batches(log, asked):
    """All batches, each asked for these columns, and what each had before it was asked."""
    reader, at, found = log.read_ahead(), log.min_physical_offset, []
    try:
        while at < log.max_physical_offset:
            batch = reader.read(at, log.max_physical_offset).batch
            found.append([name for name in asked if batch.holds(name)])
            for name in asked:
                batch.column(name)
            at = batch.end_offset
    finally:
        reader.close()
    return found


def test_windows_read_ahead_have_the_columns_that_will_be_asked_for(log):
    asked = ["born_timestamp", "tags_code", "physical_offset"]
    held = batches(log, asked)

    assert len(held) > 5
    assert held[0] == []
    # The second was read ahead before the first was used; the last is no whole window.
    assert all(each == asked for each in held[2:-1])


def test_no_column_is_made_that_nobody_asked_for(log):
    assert batches(log, []) == [[]] * len(batches(log, []))
    reader = log.read_ahead()
    try:
        batch = reader.read(0, log.max_physical_offset).batch
        assert not batch.holds("tags_code")
        assert "tags_code" not in batch.asked()
    finally:
        reader.close()


def test_what_enriched_batches_and_parts_are_asked_for_counts_and_what_plugins_add_does_not(log):
    reader, at = log.read_ahead(), 0
    try:
        for turn in range(4):
            batch = reader.read(at, log.max_physical_offset).batch
            assert batch.holds("flag") == batch.holds("tags_code") == (turn > 1)
            enriched = batch.with_columns({"mine": np.zeros(len(batch), np.int64)})
            enriched.column("tags_code")
            enriched.column("mine")
            batch[2:5].column("flag")
            words = enriched.text("KEYS")
            assert words[3] == batch.text("KEYS")[3] == batch.message(3).keys[0]
            assert {"flag", "tags_code", "text:KEYS"} <= set(batch.asked())
            assert "mine" not in batch.asked()
            at = batch.end_offset
    finally:
        reader.close()
