"""Power cuts, failing disks and killed writers: the index is what the log says, byte for byte."""

from __future__ import annotations

import shutil
from typing import Any, ClassVar

import pytest

import reput
from reput_index import IndexPlugin
from reput_index.layout import HEADER
from reput_testing import CrashContract, KillContract

pytestmark = pytest.mark.shows("power-cut")

FIRST, LAST = -(1 << 63), (1 << 63) - 1


def found_by_every_key(plugin: IndexPlugin) -> dict[tuple[str, str], list[int]]:
    """Physical offsets by topic and key, for all keys of the log."""
    found: dict[tuple[str, str], list[int]] = {}
    for batch in plugin.context.log.scan():
        for row in range(len(batch)):
            view = batch.message(row)
            words = [view.properties.get("UNIQ_KEY"), *view.properties.get("KEYS", "").split(" ")]
            for key in filter(None, words):
                if (view.topic, key) not in found:
                    answer = plugin.reput_query(view.topic, key, FIRST, LAST, None, True, None)
                    found[view.topic, key] = [each.physical_offset for each in answer]
    return found


@pytest.mark.proof
class TestCrashes(CrashContract):
    plugin_name = "index"
    config: ClassVar = {"slots_per_file": 5, "items_per_file": 6}
    grows = True

    def state(self, plugin: Any) -> object:
        return found_by_every_key(plugin)


@pytest.mark.proof
class TestCrashesOfFilesOfManyPages(CrashContract):
    """Slots on pages of their own: each may be older or newer than the items."""

    plugin_name = "index"
    config: ClassVar = {"slots_per_file": 5_000, "items_per_file": 600}
    max_states = 20

    def state(self, plugin: Any) -> object:
        return found_by_every_key(plugin)


@pytest.mark.proof
class TestKilled(KillContract):
    plugin_name = "index"
    config: ClassVar = {"slots_per_file": 50, "items_per_file": 60}
    grows = True

    def state(self, plugin: Any) -> object:
        return {"items": sum(file.item_count for file in plugin.index.files)}


def test_a_store_that_was_opened_with_other_options_after_a_crash_is_mended(tmp_path):
    """Files that were left by a kill keep their geometry, found in them."""
    log = {"file_size": 65_536}
    config = {"commitlog": log, "index": {"slots_per_file": 11, "items_per_file": 50}}
    with reput.open(tmp_path / "a", plugins=["index"], config=config, threads=False) as store:
        for number in range(100):
            store.put(reput.Message("T", b"", keys=f"n{number} all"))
        store.wait_dispatched()
        store.flush()
        shutil.copytree(tmp_path / "a", tmp_path / "killed")

    other = {"index": {"slots_per_file": 99, "items_per_file": 1_000}}
    with reput.open(tmp_path / "killed", config=other, threads=False) as store:
        store.wait_dispatched()
        assert len(store.query("T", "all")) == 100

    for path in (tmp_path / "a" / "index").iterdir():
        assert (tmp_path / "killed" / "index" / path.name).read_bytes() == path.read_bytes()


def test_a_broker_after_a_killed_writer_adds_no_key_again(tmp_path):
    """It goes by the header of the last file, which states no items yet; what it adds is undone."""
    config = {"index": {"slots_per_file": 11, "items_per_file": 50}}
    with reput.open(tmp_path / "a", plugins=["index"], config=config, threads=False) as store:
        for number in range(60):
            store.put(reput.Message("T", b"", keys=f"n{number}"))
        store.wait_dispatched()
        first, second = store.plugin("index").index.files
        unflushed = HEADER.unpack((tmp_path / "a" / "index" / second.path[-17:]).read_bytes()[:40])
        store.flush()
        shutil.copytree(tmp_path / "a", tmp_path / "killed")

    end = first.header.end_timestamp, first.header.end_physical_offset
    assert unflushed == (end[0], end[0], end[1], end[1], 0, 0)

    written = {path.name: path.read_bytes() for path in (tmp_path / "a" / "index").iterdir()}
    names = sorted(written)
    (tmp_path / "killed" / "index" / names[1]).write_bytes(written[names[0]])
    with reput.open(tmp_path / "killed", threads=False) as store:
        store.wait_dispatched()
    found = {path.name: path.read_bytes() for path in (tmp_path / "killed" / "index").iterdir()}
    assert found == written
