"""Paths with ``*``, ``?`` and ``[…]``, and the name of the broker that a row came from."""

from __future__ import annotations

import pytest

import reput
from reput.errors import StoreNotFoundError
from reput_arrow import table
from reput_arrow.logs.discovery import find_logs
from reput_arrow.logs.logplace import LogPlace

CONFIG = {"commitlog": {"file_size": 65_536}}


@pytest.fixture
def brokers(tmp_path):
    """Directories of three brokers, each with its store where RocketMQ puts it, and more."""
    for name in ("broker-a", "broker-b", "backup"):
        with reput.open(tmp_path / name / "store", plugins=(), config=CONFIG) as store:
            store.put(reput.Message("orders", name.encode()))
    (tmp_path / "broker-a" / "conf").mkdir()
    (tmp_path / "broker-notes.txt").write_text("no store")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("broker-*/store", ["broker-a", "broker-b"]),
        ("*/store", ["backup", "broker-a", "broker-b"]),
        ("broker-[b-z]/store/commitlog", ["broker-b"]),
        ("b?????/store", ["backup"]),
        ("broker-*/store/commitlog/0*", ["broker-a", "broker-b"]),
        ("broker-*", ["broker-a", "broker-b"]),
    ],
)
def test_a_pattern_stands_for_all_that_it_matches(brokers, pattern, expected):
    found = table(f"{brokers}/{pattern}", columns=["broker", "body"])

    assert found.column("broker").to_pylist() == expected
    assert found.column("body").to_pylist() == [name.encode() for name in expected]


def test_in_a_uri_a_star_is_a_pattern(brokers):
    found = table(f"file://{brokers}/broker-*/store", columns=["broker"])

    assert found.column("broker").to_pylist() == ["broker-a", "broker-b"]


def test_a_name_with_such_letters_is_taken_as_it_is(tmp_path):
    with reput.open(tmp_path / "log[1]", plugins=(), config=CONFIG) as store:
        store.put(reput.Message("orders", b"odd"))

    assert table(tmp_path / "log[1]", columns=["body"]).num_rows == 1


def test_a_pattern_that_matches_nothing_is_told(brokers):
    with pytest.raises(StoreNotFoundError, match="server-"):
        find_logs([f"{brokers}/server-*/store"])


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("/data/broker-a/store", "broker-a"),
        ("/data/broker-a", "broker-a"),
        ("/data/broker-a/store/commitlog/00000000000000000000", "broker-a"),
        ("s3://logs/broker-b/store?region=eu-west-1", "broker-b"),
        ("/store", "store"),
        ("/", "/"),
    ],
)
def test_the_broker_is_named_by_its_directory(store, expected):
    assert LogPlace(store, "/x", 1).broker == expected
