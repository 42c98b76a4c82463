"""Extend files: Apache RocketMQ's store reads and continues ours, and we read and continue its."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from java_store import EXTEND_FILE_SIZE, EXTENDED, UNITS_PER_FILE, JavaStore, Row
from samples import CASES, TOPICS, expected, in_order, read_all

import reput

pytestmark = pytest.mark.sizes(consumequeue={"extend_file_size": EXTEND_FILE_SIZE})

COUNT = 700
PLAIN = CASES["one-at-a-time"]
EXTEND = {"units_per_file": UNITS_PER_FILE, "extend": True}
CONDITIONS = ("TAGS IS NOT NULL", "price > 500", "KEYS IS NOT NULL AND TAGS = 'TagA'")
BIT_MAP_FACTOR = np.uint64(2654435761)

Plugins = Callable[[], Sequence[Any]]


class BitMaps(reput.Plugin):
    """The bit maps of the Java program: eight bytes of the physical offset, multiplied."""

    name: ClassVar[str] = "bitmaps"

    @reput.hookimpl
    def reput_enrich(self, batch: reput.DispatchBatch) -> dict[str, npt.NDArray[Any]]:
        product = batch.physical_offset.astype(np.uint64) * BIT_MAP_FACTOR
        return {"bit_map": product.astype(">u8").view("V8")}


class Asked:
    """A filter that selects everything and remembers what it was asked about."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        self.rows += [
            {
                "tags_code": tags_code,
                "store_timestamp": store_timestamp,
                "bit_map": None if bit_map is None else bytes(bit_map).hex(),
            }
            for tags_code, bit_map, store_timestamp in zip(
                tags_codes.tolist(), bit_maps, store_timestamps.tolist(), strict=True
            )
        ]
        return np.ones(len(tags_codes), np.bool_)

    def matches_batch(self, batch: reput.DispatchBatch) -> npt.NDArray[np.bool_]:
        return np.ones(len(batch), np.bool_)

    def matches(self, message: reput.MessageView) -> bool:
        return True


def hashed() -> list[Any]:
    return ["consumequeue", BitMaps()]


def filtered() -> list[Any]:
    return ["consumequeue", "filter"]


def open_store(path: Path, plugins: Plugins = hashed, mode: str = "w") -> reput.Store:
    used = plugins()
    config: dict[str, Any] = {**PLAIN.config, "consumequeue": EXTEND}
    if "filter" in used:
        config["filter"] = {"bit_maps": True}
    return reput.open(path, mode=mode, plugins=used, config=config)


def write(path: Path, plugins: Plugins = hashed, seed: int = 1) -> list[Row]:
    """Put with reput; what each message is."""
    with open_store(path, plugins) as store:
        if plugins is filtered:
            for number, (topic, condition) in enumerate(itertools.product(TOPICS, CONDITIONS)):
                store.plugin_objects["filter"].register(f"group-{number}", topic, condition)
        rows = [expected(PLAIN, *put) for put in PLAIN.write(store, COUNT, seed=seed)]
        assert store.wait_dispatched(60)
    return rows


def told_by_reput(path: Path, plugins: Plugins = hashed) -> list[Row]:
    """What filters are asked about, queue after queue, without changing a byte."""
    rows: list[Row] = []
    with open_store(path, plugins, "r") as store:
        for queue in store.queues():
            queue_offset, asked = queue.min_queue_offset, Asked()
            while queue_offset < queue.max_queue_offset:
                result = store.read(queue.topic, queue.queue_id, queue_offset, 32, filter=asked)
                # Looked ahead of, and asked about again in the next read.
                del asked.rows[result.next_queue_offset - queue.min_queue_offset :]
                queue_offset = result.next_queue_offset
            rows += [
                {"topic": queue.topic, "queue_id": queue.queue_id, **row} for row in asked.rows
            ]
    return by_queue(rows)


def by_queue(rows: Iterable[Row]) -> list[Row]:
    """Queue after queue, in the order in which they are within each."""
    return sorted(rows, key=lambda row: (row["topic"], row["queue_id"]))


def derived_files(path: Path) -> dict[str, bytes]:
    """Bytes of every consume queue and extend file by its path."""
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for folder in ("consumequeue", "consumequeue_ext")
        for file in sorted((path / folder).rglob("*"))
        if file.is_file()
    }


def remove_derived(path: Path) -> None:
    shutil.rmtree(path / "consumequeue")
    shutil.rmtree(path / "consumequeue_ext")


def built_by_reput(path: Path) -> dict[str, bytes]:
    """The same files, made by reput from nothing."""
    remove_derived(path)
    with open_store(path) as store:
        assert store.wait_dispatched(60)
    return derived_files(path)


def assert_whole(told: Sequence[Row], count: int) -> None:
    """Every message has its own bit map."""
    assert len(told) == count
    assert len({row["bit_map"] for row in told}) == count
    assert None not in {row["bit_map"] for row in told}


# --------------------------------------------------------------------------- ours


@pytest.mark.parametrize("plugins", [hashed, filtered])
def test_java_reads_the_extend_units_that_reput_wrote(
    java: JavaStore, tmp_path: Path, plugins: Plugins
):
    path = tmp_path / "store"
    rows = write(path, plugins)
    ours, files = told_by_reput(path, plugins), derived_files(path)

    dump = java.dump(path, *EXTENDED)

    assert by_queue(dump.extends) == ours
    assert in_order(dump.messages) == in_order(rows)
    assert len(ours) == COUNT
    assert len({row["bit_map"] for row in ours}) >= len(CONDITIONS)
    assert {row["store_timestamp"] for row in ours} == {row["store_timestamp"] for row in rows}
    assert derived_files(path) == files
    assert any(name.endswith(f"{EXTEND_FILE_SIZE:020}") for name in files)


def test_java_derives_the_same_extend_files(java: JavaStore, tmp_path: Path):
    path = tmp_path / "store"
    write(path)
    ours = derived_files(path)
    remove_derived(path)

    java.dump(path, *EXTENDED)

    assert derived_files(path) == ours


# --------------------------------------------------------------------------- Java's


@pytest.mark.parametrize("mode", ["plain", "batch"])
def test_reput_reads_the_extend_units_that_java_wrote(java: JavaStore, tmp_path: Path, mode: str):
    path = tmp_path / "store"
    java.write(path, mode, COUNT, *EXTENDED)
    theirs = derived_files(path)

    told = told_by_reput(path)

    assert_whole(told, COUNT)
    assert by_queue(java.dump(path, *EXTENDED).extends) == told
    assert built_by_reput(path) == theirs


def test_extend_files_may_change_hands_again_and_again(java: JavaStore, tmp_path: Path):
    path, count = tmp_path / "store", 0

    for turn, ending in enumerate(itertools.chain(*itertools.repeat([(), ("--kill",)], 2))):
        count += len(write(path, seed=turn))
        count += len(java.write(path, "plain", 200, "--seed", str(turn), *EXTENDED, *ending))

    with open_store(path) as store:
        assert len(read_all(store)) == count
    told = told_by_reput(path)
    assert_whole(told, count)
    assert by_queue(java.dump(path, *EXTENDED).extends) == told
    both = derived_files(path)
    assert built_by_reput(path) == both
