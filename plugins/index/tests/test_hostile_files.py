"""Index files that say what cannot be: a search ends, and finds what is there or says why not."""

from __future__ import annotations

import logging
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reput
from reput.errors import CorruptFileError
from reput_index import IndexConfig, IndexPlugin
from reput_index.batchkeys import hash_of
from reput_index.layout import HEADER_SIZE, ITEM_SIZE, SLOT_SIZE
from reput_testing import Driver, SmallLog

SLOTS, ITEMS = 3, 200
FIRST, LAST = -(1 << 63), (1 << 63) - 1
ITEMS_AT = HEADER_SIZE + SLOTS * SLOT_SIZE


def log_of(count=40):
    log = SmallLog(4096)
    for number in range(count):
        log.append(reput.Message("T", b"", keys=f"n{number} all"), after_ms=100)
    return log


def ask(plugin, key, **options):
    question = {"begin": FIRST, "end": LAST, "limit": None, **options}
    answer = plugin.reput_query("T", key, oldest_first=False, after=None, **question)
    return [each.physical_offset for each in answer]


@pytest.fixture
def stored(tmp_path):
    """A log, a directory with its index in one file, and the file."""
    log = log_of()
    with Driver(new_plugin(), "index", tmp_path, log) as driver:
        driver.catch_up()
    (file,) = (tmp_path / "index").iterdir()
    return log, tmp_path, file


def new_plugin():
    return IndexPlugin(IndexConfig(slots_per_file=SLOTS, items_per_file=ITEMS))


def opened(log, root, *, writable, clean=True):
    return Driver(new_plugin(), "index", root, log, log.max_physical_offset, writable, clean)


def patch(file, position, layout, *values):
    data = bytearray(file.read_bytes())
    struct.pack_into(layout, data, position, *values)
    file.write_bytes(data)


def item_at(number):
    return ITEMS_AT + number * ITEM_SIZE


def slot_at(key):
    return HEADER_SIZE + hash_of("T", key) % SLOTS * SLOT_SIZE


def newest_of(file, key):
    return struct.unpack_from(">i", file.read_bytes(), slot_at(key))[0]


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("previous", ["itself", "a newer one", -1, 199, 200, 2**31 - 1, -(2**31)])
def test_a_chain_that_loops_or_leaves_the_file_hides_nothing(stored, previous, writable, caplog):
    log, root, file = stored
    newest = newest_of(file, "all")
    target = newest - 4
    value = {"itself": target, "a newer one": newest}.get(previous, previous)
    for number in range(target, newest):  # whichever of them is in the chain
        patch(file, item_at(number) + 16, ">i", value)

    with opened(log, root, writable=writable) as driver:
        with caplog.at_level(logging.WARNING):
            found = ask(driver.plugin, "all")
        assert found == log.starts[::-1]
        # As wrong as Java's, but it ends.
        assert len(driver.plugin.query_as_rocketmq("T", "all")) <= 64

    assert "chain of items is broken" in caplog.text
    assert str(file) in caplog.text


@pytest.mark.parametrize("value", [-1, 199, 200, 2**31 - 1, -(2**31)])
def test_a_slot_that_leads_nowhere_hides_nothing_from_a_reader(stored, value):
    log, root, file = stored
    patch(file, slot_at("all"), ">i", value)

    with opened(log, root, writable=False) as driver:
        assert ask(driver.plugin, "all") == log.starts[::-1]


@pytest.mark.parametrize("offset", [-1, 1 << 62, -(1 << 63), 7])
def test_items_that_point_to_no_message_of_that_key_are_left_out(stored, offset):
    log, root, file = stored
    patch(file, item_at(2 * 17 + 1) + 4, ">q", offset)

    with opened(log, root, writable=False) as driver:
        found = [ask(driver.plugin, f"n{number}") for number in (3, 17, 30)]

    assert found == [[log.starts[3]], [], [log.starts[30]]]


@pytest.mark.parametrize(
    "next_item",
    [ITEMS + 1, 2**31 - 1, 150, 2],  # beyond the file, beyond what is there, too few
)
def test_a_count_that_the_items_contradict_is_an_error_for_a_reader(stored, next_item):
    log, root, file = stored
    patch(file, 36, ">i", next_item)

    with opened(log, root, writable=False) as driver:
        with pytest.raises(CorruptFileError) as caught:
            ask(driver.plugin, "all")

    text = str(caught.value)
    assert text.startswith(f"{file}, byte 36: ")
    assert f"item {next_item - 1}" in text
    assert "open the store for writing" in text


def test_a_begin_that_the_first_item_contradicts_is_an_error_for_a_reader(stored):
    """It says which messages the file may hold, so a wrong one would hide others."""
    log, root, file = stored
    patch(file, 16, ">q", log.starts[20])

    with opened(log, root, writable=False) as driver:
        with pytest.raises(CorruptFileError, match="item 1 is of physical offset"):
            ask(driver.plugin, "all")


def test_an_end_behind_the_log_does_not_say_that_all_of_it_was_looked_at(stored):
    log, root, file = stored
    patch(file, item_at(80) + 4, ">q", 1 << 62)
    patch(file, 24, ">q", 1 << 62)

    with opened(log, root, writable=False) as driver:
        answer = driver.plugin.reput_query("T", "n3", FIRST, LAST, None, False, None)

    assert answer.indexed_to <= log.max_physical_offset


@pytest.mark.parametrize("oldest_first", [True, False])
@pytest.mark.parametrize("limit", [None, 1, 6])
@pytest.mark.parametrize("target", [0, 3, 12])
def test_an_item_that_points_to_another_message_of_the_key_moves_nothing(
    stored, target, limit, oldest_first
):
    """Message 12 is the only one whose item is wrong; no other comes twice or in another place."""
    log, root, file = stored
    wanted = hash_of("T", "all")
    number = next(each for each in (2 * 12 + 1, 2 * 12 + 2) if hash_at(file, each) == wanted)
    patch(file, item_at(number) + 4, ">q", log.starts[target])

    found, after = [], None
    with opened(log, root, writable=False) as driver:
        while True:
            answer = driver.plugin.reput_query("T", "all", FIRST, LAST, limit, oldest_first, after)
            found += [each.physical_offset for each in answer]
            after = answer.after
            if answer.is_complete:
                break

    expected = [start for place, start in enumerate(log.starts) if place != 12 or target == 12]
    assert found == (expected if oldest_first else expected[::-1])


def hash_at(file, number):
    return struct.unpack_from(">i", file.read_bytes(), item_at(number))[0]


@pytest.mark.parametrize("clean", [True, False])
def test_a_file_that_says_it_is_an_old_one_is_not_removed_with_its_keys(tmp_path, clean):
    log = log_of()

    def plugin():
        return IndexPlugin(IndexConfig(slots_per_file=SLOTS, items_per_file=31))

    with Driver(plugin(), "index", tmp_path, log) as driver:
        driver.catch_up()
    sound = {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()}
    patch(min((tmp_path / "index").iterdir()), 24, ">q", -1)

    end = log.max_physical_offset
    with Driver(plugin(), "index", tmp_path, log, end, writable=True, clean=clean) as driver:
        driver.catch_up()

    assert {path.name: path.read_bytes() for path in (tmp_path / "index").iterdir()} == sound


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "header",
    [
        b"\xff" * 40,
        b"\x7f" * 40,
        b"\x80" + bytes(39),
        struct.pack(">qqqqii", 1, 2, 0, 99, 3, 2**31 - 1),
        struct.pack(">qqqqii", 1, 2, 1 << 62, 99, 3, 81),
        struct.pack(">qqqqii", -1, -1, -1, -1, -1, 81),
        struct.pack(">qqqqii", 1, 2, 0, 99, 3, ITEMS),
    ],
)
def test_an_absurd_header_is_mended_by_a_writer(stored, header, clean):
    log, root, file = stored
    sound = file.read_bytes()
    file.write_bytes(header + sound[40:])

    with opened(log, root, writable=True, clean=clean) as driver:
        driver.catch_up()
        assert ask(driver.plugin, "all") == log.starts[::-1]

    (mended,) = (root / "index").iterdir()
    assert mended.read_bytes() == sound


@pytest.mark.parametrize("number", [1, 2, 40, 79, 80])
@pytest.mark.parametrize("field", [0, 4, 16])
def test_after_a_crash_a_writer_mends_items_that_cannot_be(stored, number, field):
    log, root, file = stored
    sound = file.read_bytes()
    patch(file, item_at(number) + field, ">i", -5)

    with opened(log, root, writable=True, clean=False) as driver:
        driver.catch_up()

    assert file.read_bytes() == sound


@pytest.mark.parametrize("slot", range(SLOTS))
@pytest.mark.parametrize("value", [0, 1, 5, 199, 2**31 - 1, -1])
def test_after_a_crash_slots_are_made_again(stored, slot, value):
    log, root, file = stored
    sound = file.read_bytes()
    patch(file, HEADER_SIZE + slot * SLOT_SIZE, ">i", value)

    with opened(log, root, writable=True, clean=False) as driver:
        driver.catch_up()

    assert file.read_bytes() == sound


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    changes=st.lists(
        st.tuples(st.integers(0, ITEMS_AT + 90 * ITEM_SIZE), st.binary(min_size=1, max_size=40)),
        min_size=1,
        max_size=6,
    ),
    writable=st.booleans(),
    clean=st.booleans(),
)
def test_whatever_a_file_says_what_is_found_has_the_key(tmp_path_factory, changes, writable, clean):
    root, log = tmp_path_factory.mktemp("x"), log_of(20)
    with Driver(new_plugin(), "index", root, log) as driver:
        driver.catch_up()
    (file,) = (root / "index").iterdir()
    data = bytearray(file.read_bytes())
    for position, replacement in changes:
        data[position : position + len(replacement)] = replacement
    file.write_bytes(data[: len(file.read_bytes())])

    with opened(log, root, writable=writable, clean=clean) as driver:
        if writable:
            driver.catch_up()
        for key, wanted in [("all", log.starts), ("n7", log.starts[7:8]), ("none", [])]:
            try:
                found = ask(driver.plugin, key)
                driver.plugin.query_as_rocketmq("T", key)
            except CorruptFileError:
                if writable:
                    raise
                continue
            assert set(found) <= set(wanted)
            assert sorted(set(found), reverse=True) == found


def test_files_of_other_names_are_left_alone(tmp_path):
    log = log_of()
    directory = tmp_path / "index"
    directory.mkdir()
    for name in ("20231114221320123.bak", "notes", "123", "x" * 17):
        (directory / name).write_bytes(b"mine")
    (directory / "20231114221320123").mkdir()

    with Driver(new_plugin(), "index", tmp_path, log) as driver:
        driver.catch_up()
        assert ask(driver.plugin, "n5") == [log.starts[5]]

    assert (directory / "notes").read_bytes() == b"mine"
