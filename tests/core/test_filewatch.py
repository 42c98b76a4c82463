"""A reader sleeps until another process changes files, and looks by itself where nothing tells."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from reput.files import FileWatch
from reput.files.system import filewatch

LONG = 60.0


@pytest.fixture
def watch(tmp_path):
    with FileWatch(tmp_path) as made:
        yield made


def write(path, data=b"x"):
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(data)


def test_a_write_is_reported_with_the_key_of_its_directory(watch, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "file")
        watch.add(f"key {name}", name)

    write(tmp_path / "b/file", b"more")

    assert watch.wait(LONG) == {"key b"}
    assert watch.wait(0) == set()


def test_a_directory_may_come_into_being_later(watch, tmp_path):
    watch.add("key", "queues", "orders", "0")

    (tmp_path / "queues").mkdir()
    assert watch.wait(LONG) == {"key"}
    (tmp_path / "queues/orders/0").mkdir(parents=True)
    assert watch.wait(LONG) == {"key"}
    write(tmp_path / "queues/orders/0/file")
    assert watch.wait(LONG) == {"key"}


def test_a_key_is_removed_and_the_system_watches_what_other_keys_need(watch, tmp_path):
    for name, key in (("a", "one"), ("a", "two"), ("b", "three")):
        (tmp_path / name).mkdir(exist_ok=True)
        watch.add(key, name)
    watched = Path(f"/proc/self/fdinfo/{watch._inotify}")
    assert watched.read_text().count("inotify wd") == 2

    for key in ("one", "three", "never added"):
        watch.remove(key)
    assert watched.read_text().count("inotify wd") == 1
    write(tmp_path / "b/file")
    write(tmp_path / "a/file")
    assert watch.wait(LONG) == {"two"}

    watch.add("three", "b")
    write(tmp_path / "b/file")
    assert watch.wait(LONG) == {"three"}


def test_a_wait_ends_when_another_thread_wakes_it(watch):
    waking = threading.Thread(target=watch.wake)
    waking.start()

    assert watch.wait(LONG) == set()
    waking.join()


def test_a_reader_looks_more_often_where_looks_find_what_was_not_reported(watch, tmp_path):
    (tmp_path / "a").mkdir()
    watch.add("key", "a")
    quiet = watch.interval

    watch.found_more()
    assert watch.interval < quiet
    write(tmp_path / "a/file")
    assert watch.wait(LONG) == {"key"}

    assert watch.interval == quiet


def test_without_reports_of_the_system_the_time_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(filewatch, "_library", lambda: None)
    with FileWatch(tmp_path) as watch:
        watch.add("key", "a")

        assert watch.wait(0.001) == set()
        assert watch.interval == 0.1
