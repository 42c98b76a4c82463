"""Power cuts, failing disks and killed writers: the index is what the log says, byte for byte."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest

import reput
from reput.files import Disk
from reput.log import Checkpoint
from reput_index import IndexPlugin
from reput_index.files.header import Geometry, Header
from reput_index.layout import HEADER, ITEM
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


SIZES: dict[str, Any] = {
    "commitlog": {"file_size": 4_096},
    "index": {"slots_per_file": 5, "items_per_file": 30},
}


def keys_that_a_broker_misses(root: Path, rows: list[tuple[int, int]]) -> list[int]:
    """Physical offsets of messages whose two keys a broker lacks after it has recovered.

    It removes each index file that ends later than the checkpoint's time of the index. From the
    last log file that begins no later than the checkpoint's times, it adds the keys that do not
    stand before the end of its last index file.

    Source: RocketMQ ``IndexService#load``, ``CommitLog#recoverAbnormally``, ``messageIndexSafe``.
    """
    known = Checkpoint.load(str(root / "checkpoint"), Disk())
    items: Counter[int] = Counter()
    end = 0
    for path in sorted((root / "index").iterdir()):
        data = path.read_bytes()
        header = Header.decode(data)
        if header.end_timestamp <= known.index_timestamp:
            first = Geometry(5, 30).position_of_item(1)
            whole = data[first : Geometry(5, 30).position_of_item(header.next_item)]
            items.update(offset for _, offset, _, _ in ITEM.iter_unpack(whole))
            end = header.end_physical_offset
    until = min(known.index_timestamp, known.replay_timestamp)
    begins = [offset for offset, time in rows if offset % 4_096 == 0 and time <= until]
    start = max(begins, default=0)
    return [offset for offset, _ in rows if items[offset] < 2 and offset < max(start, end)]


def test_a_broker_after_a_writer_that_was_killed_soon_has_all_keys(tmp_path):
    """Its checkpoint may be of a broker, whose index files ended elsewhere."""
    rows: list[tuple[int, int]] = []  # physical offset and store time of each message
    options: dict[str, Any] = {"plugins": ["index"], "config": SIZES, "threads": False}
    with reput.open(tmp_path / "a", clock=lambda: 1_000_000 + now * 4_000, **options) as store:
        for number in range(100):
            now = number // 3
            if number == 40:
                store.wait_dispatched()
                store.flush()
                early = (tmp_path / "a" / "reput" / "state").read_bytes()
            receipt = store.put(reput.Message("T", b"x" * 70, keys=f"n{number} m{number}"))
            rows.append((receipt.physical_offset, 1_000_000 + now * 4_000))
        store.wait_dispatched()
        store.flush()
        shutil.copytree(tmp_path / "a", tmp_path / "left")
    (tmp_path / "left" / "reput" / "state").write_bytes(early)  # a broker leaves it as it is
    missing = []

    class Killed(Disk):
        def remove(self, path):
            super().remove(path)
            if "/index/" in path:
                missing.append(keys_that_a_broker_misses(root, rows))

    for time in sorted({time for _, time in rows})[13::4]:
        root = tmp_path / str(time)
        shutil.copytree(tmp_path / "left", root)
        Checkpoint(rows[-1][1], rows[-1][1], time).save(str(root / "checkpoint"), Disk())
        with reput.open(root, disk=Killed(), **options) as store:
            for step in (lambda: None, store.wait_dispatched, store.flush):
                step()
                assert keys_that_a_broker_misses(root, rows) == [], (time, step)
    assert missing
    assert not any(missing)
