"""Extend files: RocketMQ's bytes, rolled, cut, cleared, trimmed, and read without trust."""

from __future__ import annotations

import itertools
import shutil
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reput
from reput.record import java_string_hash
from reput.status import ReadStatus
from reput_consumequeue import ConsumeQueueConfig, ConsumeQueuePlugin
from reput_consumequeue.extend.extendfiles import ExtendFiles, ExtendSource
from reput_consumequeue.extend.layout import addresses_of, is_address, positions_of
from reput_consumequeue.queue import queueextend
from reput_consumequeue.queue.queueextend import extend_of
from reput_testing import CrashContract, Driver, PluginContract, SmallLog, snapshot

pytestmark = pytest.mark.sizes(consumequeue={"extend_file_size": 256})
OF_4096 = pytest.mark.sizes(consumequeue={"extend_file_size": 4096})

GOLDEN_BIT_MAPS = np.uint64(2654435761)


@attrs.define(eq=False)
class BitMaps(reput.Plugin):
    """Computes the bit maps of the recorded store: eight bytes of the physical offset, hashed."""

    name: ClassVar[str] = "bitmaps"

    config: Any = None

    @reput.hookimpl
    def reput_enrich(self, batch):
        hashed = batch.physical_offset.astype(np.uint64) * GOLDEN_BIT_MAPS
        return {"bit_map": hashed.astype(">u8").view("V8")}


def files_of(root):
    return snapshot(root, [root / "consumequeue", root / "consumequeue_ext"])


def configured(**more):
    return {"consumequeue": {"units_per_file": 100, "extend": True, **more}}


def test_an_opening_looks_for_the_size_of_extend_files_once_also_if_none_has_whole_pages(
    tmp_path, monkeypatch
):
    looks, look = [], queueextend._size_on_disk
    monkeypatch.setattr(
        queueextend, "_size_on_disk", lambda context: looks.append(1) or look(context)
    )
    for _ in range(2):
        plugins = ["consumequeue", BitMaps()]
        with reput.open(tmp_path, plugins=plugins, config=configured(), threads=False) as store:
            store.put_many([reput.Message("t", b"x", queue_id) for queue_id in range(9)])
            store.wait_dispatched()
        assert len(files_of(tmp_path)) == 18
    assert len(looks) == 2


@OF_4096
@pytest.mark.parametrize("window_size", [4096, 1 << 20])
def test_the_recorded_extend_files_are_built_again_byte_for_byte(
    window_size, golden_store, monkeypatch
):
    monkeypatch.setattr(reput.CommitLogConfig, "window_size", window_size)
    root = golden_store("ext")
    javas = files_of(root)
    shutil.rmtree(root / "consumequeue")
    shutil.rmtree(root / "consumequeue_ext")

    config = configured()
    with reput.open(root, "w", plugins=["consumequeue", BitMaps()], config=config) as store:
        assert store.wait_dispatched(60)

    assert files_of(root) == javas


@OF_4096
def test_a_recorded_store_goes_on_where_java_stopped(golden_store):
    root, other = golden_store("ext"), golden_store("ext")
    shutil.rmtree(other / "consumequeue")
    shutil.rmtree(other / "consumequeue_ext")

    for each in (root, other):
        with reput.open(
            each, "w", plugins=["consumequeue", BitMaps()], config=configured(), clock=lambda: 1
        ) as store:
            for number in range(600):
                store.put(reput.Message("orders", b"%d" % number, number % 4, tags="more"))
            assert store.wait_dispatched(60)

    assert files_of(root) == files_of(other)
    assert any(name.endswith("/00000000000000004096") for name in files_of(root))


def test_messages_of_the_recorded_store_are_found_by_their_tags(golden_store, golden_rows):
    wanted = AnyTag({java_string_hash("TagA")})
    stored = {}
    for row in golden_rows("ext", "put"):
        stored.setdefault((row["topic"], row["queue_id"]), []).append(row)

    with reput.open(golden_store("ext"), plugins=["consumequeue"]) as store:
        for info in store.queues():
            result = store.read(info.topic, info.queue_id, 0, 999, filter=wanted)

            assert [message.tags for message in result] == [
                row["properties"].split("TAGS\x01")[1].split("\x02")[0]
                for row in stored[info.topic, info.queue_id]
                if "TAGS\x01TagA\x02" in row["properties"]
            ]
            assert not result.holes
    assert wanted.asked
    assert wanted.maps
    assert None not in wanted.maps


class AnyTag:
    """Selects by tags codes; remembers what it was asked about."""

    def __init__(self, codes):
        self.codes, self.asked, self.maps, self.timestamps = codes, [], [], []

    def matches(self, message):
        self.asked.append(message.physical_offset)
        return message.tags_code in self.codes

    def matches_batch(self, batch):
        return np.isin(batch.tags_code, list(self.codes))

    def may_match(self, tags_codes, bit_maps, store_timestamps):
        self.maps += bit_maps
        self.timestamps += store_timestamps.tolist()
        return np.isin(tags_codes, list(self.codes))


# --------------------------------------------------------------------------- the format


def test_addresses_are_the_codes_below_every_hash():
    codes = np.array([-(1 << 31), -(1 << 31) - 1, -(1 << 63), 0, 5], np.int64)

    assert is_address(codes).tolist() == [False, True, True, False, False]
    assert addresses_of(np.array([0, 34])).tolist() == [
        -9223372036854775808,
        -9223372036854775774,
    ]
    assert positions_of(addresses_of(np.array([0, 34]))).tolist() == [0, 34]


SPECIFIED = (
    "0022" "0000000000003039" "0000018bcfe5687b" "000e" "0000002000000000000000000000"
    "0014" "ffffffffffffffff" "0000018bcfe5687c" "0000"
)  # fmt: skip


class Hashes(reput.Plugin):
    """The tags codes and bit maps of the specification's example."""

    name: ClassVar[str] = "hashes"

    @reput.hookimpl
    def reput_enrich(self, batch):
        maps = np.frombuffer(bytes.fromhex("0000002000000000000000000000") * len(batch), "V14")
        return {
            "tags_code": np.array([12345, -1], np.int64)[batch.queue_offset],
            "bit_map": maps,
            "bit_map_size": np.array([14, 0])[batch.queue_offset],
        }


@OF_4096
def test_the_example_of_the_specification(tmp_path):
    times = iter([1_700_000_000_123, 1_700_000_000_124])
    config = {**configured(), "commitlog": {"file_size": 4096}}

    with reput.open(
        tmp_path, "w", plugins=["consumequeue", Hashes()], config=config, threads=False,
        clock=lambda: next(times, 1_700_000_000_124),
    ) as store:  # fmt: skip
        times = iter([1_700_000_000_123])
        store.put(reput.Message("T", b"1"))
        store.put(reput.Message("T", b"2"))

    data = (tmp_path / "consumequeue_ext/T/0/00000000000000000000").read_bytes()
    assert len(data) == 4096
    assert data.rstrip(b"\0").ljust(54, b"\0").hex() == SPECIFIED
    units = (tmp_path / "consumequeue/T/0/00000000000000000000").read_bytes()
    assert units[12:20].hex() == "8000000000000000"
    assert units[32:40].hex() == "8000000000000022"


# --------------------------------------------------------------------------- files of one queue


def plugin_over(log, root, progress=0, **config):
    options = {"units_per_file": 10, "extend": True, **config}
    plugin = ConsumeQueuePlugin(ConsumeQueueConfig(**options))
    return Driver(plugin, "consumequeue", root, log, progress=progress)


def a_log(count=60):
    return SmallLog.of(
        [reput.Message("T", b"%d" % number, tags=f"t{number % 3}") for number in range(count)]
    )


def extend_files(root):
    return {
        path.name: path.read_bytes() for path in sorted((root / "consumequeue_ext/T/0").glob("*"))
    }


def test_a_file_without_room_for_a_unit_ends_in_minus_one(tmp_path):
    log = a_log()

    with plugin_over(log, tmp_path) as driver:
        driver.catch_up()
        queue = driver.plugin.queues["T", 0]
        units = queue.files.read(0, 10)
        found = queue.extend.read(units["tags_code"].astype(np.int64))

    files = extend_files(tmp_path)
    assert list(files) == sorted(files)
    # 20 bytes a unit: twelve are 240 bytes, and the last four bytes stay free.
    assert [data[240:242].hex() for data in files.values()][:-1] == ["ffff"] * 4
    assert all(data[242:] == bytes(14) for data in files.values())
    assert found.is_known.all()
    assert found.tags_codes.tolist() == [view.tags_code for view in log.messages()][:10]
    assert found.store_timestamps.tolist() == [v.store_timestamp for v in log.messages()][:10]
    assert list(found.bit_maps) == [None] * 10


@pytest.mark.sizes(consumequeue={"extend_file_size": 24})
def test_a_bit_map_too_large_for_a_unit_leaves_the_tags_code_where_it_was(tmp_path):
    log = a_log(3)

    with plugin_over(log, tmp_path) as driver:
        queue = driver.plugin._queue("T", 0)
        for batch in log.batches():
            source = ExtendSource.of(batch.with_columns({"bit_map": np.zeros(3, "V8")}))
            queue.extend.source = attrs.evolve(source, bit_map_sizes=np.array([0, 8, 0]))
            units = np.zeros(3, [("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
            units["physical_offset"] = batch.physical_offset
            units["tags_code"] = [7, 8, 9]
            addressed = queue.extend.addressed(units.view(np.uint8).data)

    codes = np.frombuffer(addressed, units.dtype)["tags_code"].astype(np.int64)
    assert is_address(codes).tolist() == [True, False, True]
    assert codes[1] == 8


@pytest.mark.parametrize(
    ("harm", "number"),
    # Zeros inside of a file look like any other content: they show in the last one only.
    [*itertools.product(["removed", "emptied"], [0, 2, 4]), ("zeroed", 4)],
)
def test_extend_files_that_are_lost_are_written_again(harm, number, tmp_path):
    log = a_log()
    with plugin_over(log, tmp_path) as driver:
        driver.catch_up()
        driver.flush()
        progress = driver.progress
    before = extend_files(tmp_path)
    path = tmp_path / "consumequeue_ext/T/0" / sorted(before)[number]
    if harm == "removed":
        path.unlink()
    else:
        path.write_bytes(b"" if harm == "emptied" else bytes(256))

    with plugin_over(log, tmp_path, progress) as driver:
        driver.catch_up()
        driver.flush()

    assert extend_files(tmp_path) == before


def test_a_unit_that_leads_nowhere_lets_the_filter_see_the_message(tmp_path):
    log = a_log(20)
    with plugin_over(log, tmp_path, units_per_file=100) as driver:
        driver.catch_up()
        driver.flush()
        queue = driver.plugin.queues["T", 0]
        for path in (tmp_path / "consumequeue_ext/T/0").iterdir():
            path.write_bytes(bytes(256))
        wanted = AnyTag({next(log.messages()).tags_code})
        found = driver.plugin.reput_read("T", 0, 0, 32, 1 << 20, wanted)

    assert [message.tags for message in found] == ["t0"] * 7
    assert queue.max_offset == 20


@settings(max_examples=200, deadline=None)
@given(
    codes=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=20)
    | st.lists(st.integers(0, 2000).map(lambda at: at - (1 << 63)), max_size=20),
    data=st.binary(max_size=256),
)
def test_whatever_addresses_and_files_say_reading_ends_in_an_answer(codes, data, tmp_path_factory):
    root = tmp_path_factory.mktemp("extend")
    (root / "q").mkdir()
    (root / "q" / "00000000000000000000").write_bytes(data.ljust(256, b"\x00"))
    with plugin_over(a_log(1), root) as driver:
        files = ExtendFiles(str(root / "q"), driver.plugin.files, 256)

        found = files.read(np.array(codes, np.int64))

    assert len(found.bit_maps) == len(codes)
    addressed = is_address(np.array(codes, np.int64))
    assert found.is_known[~addressed].all()
    assert [code for code, is_one in zip(codes, addressed, strict=True) if not is_one] == (
        found.tags_codes[~addressed].tolist()
    )


def test_extend_files_are_trimmed_with_the_queue(tmp_path):
    log = a_log(200)
    with plugin_over(log, tmp_path) as driver:
        driver.catch_up()
        driver.flush()
        files = len(extend_files(tmp_path))
        driver.call("reput_trim", min_physical_offset=log.trim(2))
        queue = driver.plugin.queues["T", 0]
        left = queue.extend.read(
            queue.files.read(queue.min_offset, 1)["tags_code"].astype(np.int64)
        )

    assert len(extend_files(tmp_path)) < files
    assert left.is_known.all()


@OF_4096
def test_extend_files_can_come_later_and_go_again(tmp_path):
    def run(first, last, **options):
        config = {"consumequeue": {"units_per_file": 100, **options}}
        with reput.open(tmp_path, "w", plugins=["consumequeue", BitMaps()], config=config) as store:
            for number in range(first, last):
                store.put(reput.Message("T", b"%d" % number, tags=f"t{number % 2}"))
            assert store.wait_dispatched(60)

    run(0, 10)
    run(10, 20, extend=True)
    run(20, 30, extend=False)
    run(30, 40, extend=True)

    wanted = AnyTag({java_string_hash("t1")})
    with reput.open(tmp_path, plugins=["consumequeue", BitMaps()]) as store:
        found = store.read("T", 0, 0, 40, filter=wanted)
    assert [int(message.body) for message in found] == list(range(1, 40, 2))
    assert [each is not None for each in wanted.maps] == ([False] * 10 + [True] * 10) * 2
    assert found.status is ReadStatus.FOUND


class TestContract(PluginContract):
    plugin_name = "consumequeue"
    config: ClassVar = {"units_per_file": 10, "extend": True}
    # Neither units nor extend units have checksums.
    undetectable = frozenset({"garbled", "zeroed", "removed"})
    undetectable_to_readers = frozenset({"emptied"})

    def files_of(self, root):
        return [f"{root}/consumequeue", f"{root}/consumequeue_ext"]

    def state(self, plugin):
        """Units as their readers see them, with what the extend files say of each."""
        found = {}
        for info in plugin.reput_queues():
            queue = plugin.queues[info.topic, info.queue_id]
            units = []
            at = info.min_queue_offset
            while at < info.max_queue_offset:
                part = queue.files.read(at, info.max_queue_offset - at)
                codes = part["tags_code"].astype(np.int64)
                extends = extend_of(queue, plugin.context, plugin.extend_file_size).read(codes)
                units += zip(
                    part["physical_offset"].tolist(),
                    extends.tags_codes.tolist(),
                    extends.store_timestamps.tolist(),
                    strict=True,
                )
                at += len(part)
            if info.max_queue_offset:
                found[info.topic, info.queue_id] = (info.min_queue_offset, units)
        return found

    def trimmed_state(self, plugin):
        return {queue: units for queue, units in self.state(plugin).items() if units[1]}


@pytest.mark.proof
@pytest.mark.sizes(consumequeue={"extend_file_size": 64})
class TestCrashes(CrashContract):
    plugin_name = "consumequeue"
    config: ClassVar = {"units_per_file": 3, "extend": True}
    files_of = TestContract.files_of
    state = TestContract.state
