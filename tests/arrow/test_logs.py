"""Logs are found wherever people point, and their ends are where writers left them."""

from __future__ import annotations

import os
import pickle
import shutil

import pytest
from sparkstores import FILE_SIZE, fill, messages_of

from reput.errors import ConfigError, CorruptFileError, StoreNotFoundError
from reput.files import file_name
from reput_arrow.logs.arrowdisk import above, below
from reput_arrow.logs.discovery import find_logs
from reput_arrow.logs.logopening import open_log
from reput_arrow.logs.logplace import COMMIT_LOG, LogPlace


def offsets_at(path):
    """Physical offsets of what is read at a path."""
    found = []
    for place in find_logs([str(path)]):
        with open_log(place) as log:
            found += [offset for batch in log.scan() for offset in batch.physical_offset.tolist()]
    return found


@pytest.fixture
def store(tmp_path):
    """A store of some files, which may be changed."""
    fill(tmp_path / "store")
    return tmp_path / "store"


def test_a_store_and_its_directory_of_log_files_are_the_same_log(store):
    whole = [message.physical_offset for message in messages_of(store)]
    shutil.rmtree(store / "reput", ignore_errors=True)
    for path in store.iterdir():
        if path.name != "commitlog":
            path.unlink()

    assert offsets_at(store) == whole
    assert offsets_at(f"{store}/") == whole
    assert offsets_at(store / "commitlog") == whole
    assert offsets_at(store.as_uri()) == whole
    assert offsets_at(f"file:{store}") == whole
    (place,) = find_logs([str(store)])
    assert place == LogPlace(str(store), f"{store}/commitlog", FILE_SIZE, None, COMMIT_LOG)
    assert pickle.loads(pickle.dumps(place)) == place


def test_a_relative_path_leads_to_the_same_place_for_executors_elsewhere(store, monkeypatch):
    monkeypatch.chdir(store.parent)

    (place,) = find_logs(["store"])

    assert place.directory == f"{store}/commitlog"
    assert place.store == "store"


def test_one_file_is_read_alone(store):
    whole = [message.physical_offset for message in messages_of(store)]
    second = store / "commitlog" / file_name(FILE_SIZE)
    wanted = [offset for offset in whole if FILE_SIZE <= offset < 2 * FILE_SIZE]

    (place,) = find_logs([str(second)])

    assert place.only_base == FILE_SIZE
    assert offsets_at(second) == wanted
    # Neither a gap beside it nor a file of another size is its concern.
    (store / "commitlog" / file_name(0)).unlink()
    (store / "commitlog" / file_name(2 * FILE_SIZE)).write_bytes(b"x")
    assert offsets_at(second) == wanted


def test_stores_of_several_brokers_are_found_below_one_directory(tmp_path):
    for name, count in (("b", 3), ("a", 2)):
        fill(tmp_path / name, count)
    (tmp_path / "notes").mkdir()
    (tmp_path / "readme.txt").write_text("x")

    places = find_logs([str(tmp_path)])

    assert [place.store for place in places] == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert len(offsets_at(tmp_path)) == 5
    assert len(find_logs([f"{tmp_path}/b", f"{tmp_path}/a"])) == 2


@pytest.mark.parametrize("what", ["nothing", "empty directory", "text file", "no such file"])
def test_where_no_log_is_the_error_says_what_was_expected(what, tmp_path):
    path = tmp_path / "x"
    if what == "empty directory":
        path.mkdir()
    elif what == "text file":
        path.write_text("x")
    elif what == "no such file":
        path = tmp_path / file_name(0)

    with pytest.raises(StoreNotFoundError, match=r"no log there|Not a directory") as failure:
        find_logs([str(path)])

    assert str(path) in str(failure.value)


def test_without_a_path_the_error_says_how_to_give_one():
    with pytest.raises(ConfigError, match="name a store"):
        find_logs([])


def test_a_scheme_that_arrow_does_not_know_is_told_in_its_words():
    with pytest.raises(StoreNotFoundError, match=r"gopher://x/y: .*gopher"):
        find_logs(["gopher://x/y"])


def test_files_made_ahead_of_need_do_not_end_the_log_too_late(store):
    whole = [message.physical_offset for message in messages_of(store)]
    bases = sorted(int(path.name) for path in (store / "commitlog").iterdir())
    for number in (1, 2):  # as RocketMQ makes them
        path = store / "commitlog" / file_name(bases[-1] + number * FILE_SIZE)
        path.write_bytes(bytes(FILE_SIZE))

    assert offsets_at(store) == whole
    (place,) = find_logs([str(store)])
    with open_log(place) as log:
        assert log.max_physical_offset <= bases[-1] + FILE_SIZE


def test_a_log_of_nothing_but_zeros_is_empty(tmp_path):
    (tmp_path / file_name(0)).write_bytes(bytes(FILE_SIZE))

    (place,) = find_logs([str(tmp_path)])
    with open_log(place) as log:
        assert log.min_physical_offset == log.max_physical_offset == 0
    assert offsets_at(tmp_path) == []


def test_the_end_is_where_the_log_ended_when_somebody_looked(store):
    (place,) = find_logs([str(store)])
    with open_log(place) as log:
        end = log.max_physical_offset
        fill(store, 50, first=400)

        assert log.max_physical_offset == end
    with open_log(place, end) as log:
        assert log.max_physical_offset == end
    with open_log(place) as log:
        assert log.max_physical_offset > end


def test_a_torn_record_at_the_end_is_not_read(store):
    whole = [message.physical_offset for message in messages_of(store)]
    last = sorted((store / "commitlog").iterdir())[-1]
    base = int(last.name)
    with last.open("r+b") as file:
        file.seek(whole[-1] - base + 100)
        file.write(bytes(FILE_SIZE - (whole[-1] - base + 100)))

    assert offsets_at(store) == whole[:-1]


def test_a_missing_file_is_told(store):
    (store / "commitlog" / file_name(FILE_SIZE)).unlink()
    (place,) = find_logs([str(store)])

    with pytest.raises(CorruptFileError, match="missing"):
        open_log(place)


def test_closing_leaves_no_file_open(store):
    (place,) = find_logs([str(store)])
    before = set(os.listdir("/proc/self/fd"))

    with open_log(place) as log:
        assert sum(len(batch) for batch in log.scan()) == 400
        assert set(os.listdir("/proc/self/fd")) - before

    assert set(os.listdir("/proc/self/fd")) <= before


def test_paths_are_joined_in_front_of_the_settings_of_a_uri():
    assert below("s3://bucket/store?region=eu", "commitlog") == (
        "s3://bucket/store/commitlog?region=eu"
    )
    assert below("hdfs://host/store/", "commitlog") == "hdfs://host/store/commitlog"
    assert below("/store?", "commitlog") == "/store?/commitlog"
    assert above("s3://bucket/store/00?region=eu") == "s3://bucket/store?region=eu"
    assert above("/00") == "/"
