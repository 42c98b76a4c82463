"""Files show for how many slots and items they were made, whatever the options say."""

from __future__ import annotations

import pytest

import reput
from reput.files import Disk
from reput_index import IndexConfig, IndexPlugin
from reput_index.files.geometry import guess_geometry
from reput_index.files.header import Geometry
from reput_testing import Driver, SmallLog


def log_of(count):
    log = SmallLog(4096)
    for number in range(count):
        properties = {"UNIQ_KEY": f"U{number}"}
        log.append(reput.Message("T", b"", keys=f"all n{number}", properties=properties))
    return log


def filled(root, log, slots, items):
    plugin = IndexPlugin(IndexConfig(slots_per_file=slots, items_per_file=items))
    with Driver(plugin, "index", root, log) as driver:
        driver.catch_up()
        return [file.path for file in plugin.index.files]


@pytest.mark.parametrize(
    ("slots", "items"), [(1, 2), (1, 50), (5, 12), (6, 5), (7, 101), (10, 300), (5_000, 20_000)]
)
@pytest.mark.parametrize("count", [1, 2, 30])
def test_the_geometry_of_a_file_is_found_in_it(tmp_path, slots, items, count):
    paths = filled(tmp_path, log_of(count), slots, items)

    found = [guess_geometry(Disk(), path) for path in paths]

    assert found[0] == Geometry(slots, items)
    assert set(found) <= {Geometry(slots, items), None}


def test_a_file_without_items_shows_nothing(tmp_path):
    log = SmallLog()
    log.append(reput.Message("T", b""))
    (path,) = filled(tmp_path, log, 7, 20)

    assert guess_geometry(Disk(), path) is None


@pytest.mark.parametrize("writable", [True, False])
def test_files_that_exist_keep_their_size(tmp_path, writable):
    log = log_of(30)
    filled(tmp_path, log, 11, 40)
    plugin = IndexPlugin()

    driver = Driver(plugin, "index", tmp_path, log, log.max_physical_offset, writable)
    with driver:
        report = plugin.reput_report()

    assert (report["slots_per_file"], report["items_per_file"]) == (11, 40)
    assert report["item_count"] == 90
