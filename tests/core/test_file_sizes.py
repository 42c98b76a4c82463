"""Sizes of a new store's log files."""

from __future__ import annotations

import os

import pytest

import reput
from reput.errors import ConfigError


def log_sizes(path):
    return [entry.stat().st_size for entry in os.scandir(path / "commitlog")]


def space_of(path):
    """Bytes on disk of everything below a directory."""
    return sum(
        os.lstat(os.path.join(folder, name)).st_blocks * 512
        for folder, _, names in os.walk(path)
        for name in names
    )


def put_one(path, **commitlog):
    with reput.open(path, plugins=[], config={"commitlog": commitlog}) as store:
        store.put(reput.Message("greetings", b"hello"))
        return store.config.file_size


def test_a_first_message_takes_little_space(tmp_path) -> None:
    put_one(tmp_path / "store")

    assert log_sizes(tmp_path / "store") == [16 << 20]
    assert space_of(tmp_path / "store") < 17 << 20


def test_large_messages_make_larger_files(tmp_path) -> None:
    assert put_one(tmp_path / "8", max_message_size=(8 << 20) - (1 << 17)) == 16 << 20
    assert put_one(tmp_path / "9", max_message_size=9 << 20) == 32 << 20
    assert put_one(tmp_path / "32", max_message_size=32 << 20, preallocate=False) == 128 << 20


def test_a_named_size_counts_whatever_messages_may_be(tmp_path) -> None:
    assert put_one(tmp_path / "store", max_message_size=9 << 20, file_size=1 << 20) == 1 << 20


def test_the_size_of_rocketmq_can_be_asked_for(tmp_path) -> None:
    with reput.open(tmp_path / "s", plugins=[], config={"commitlog": reput.ROCKETMQ_LOG}) as store:
        assert store.config.file_size == 1 << 30


def test_a_store_keeps_its_size_when_it_is_opened_with_defaults(tmp_path) -> None:
    put_one(tmp_path / "store", file_size=1 << 17, preallocate=False)

    assert put_one(tmp_path / "store") == 1 << 17
    with pytest.raises(ConfigError, match="131072 bytes"):
        put_one(tmp_path / "store", file_size=16 << 20)


def test_the_size_is_noted_before_the_first_message(tmp_path) -> None:
    reput.open(tmp_path / "store", plugins=[]).close()

    with reput.open(tmp_path / "store", plugins=[]) as store:
        assert store.config.file_size == 16 << 20
    assert log_sizes(tmp_path / "store") == []


@pytest.mark.parametrize("left", ["checkpoint", "config"])
def test_a_broker_that_has_no_log_yet_can_open_what_is_made_for_it(tmp_path, left) -> None:
    path = tmp_path / "store"
    path.mkdir()
    if left == "config":
        (path / "config").mkdir()
    else:
        (path / "checkpoint").write_bytes(bytes(4096))

    with reput.open(path, plugins=[]) as store:
        assert store.config.file_size == 1 << 30
