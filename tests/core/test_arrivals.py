"""Functions that a store calls with messages that readers can read."""

from __future__ import annotations

import sys

import pytest

import reput
from reput import Message
from reput.errors import ReadOnlyStoreError, StoreClosedError

PLUGINS = ["consumequeue"]


def test_functions_are_called_with_messages_that_can_be_read_until_this_is_ended(tmp_path):
    with reput.open(tmp_path / "store", plugins=PLUGINS, threads=False) as store:
        found: list[list[bytes]] = []
        ends = [
            store.call_on_arrival(
                lambda batch: found.append([m.body for m in store.read("orders", 0, len(found))])
            )
            for _ in range(2)
        ]

        for body in (b"1", b"2", b"3"):
            store.put(Message("orders", body))
            store.wait_dispatched()
            if ends:
                ends.pop()()

    assert found == [[b"1"], [], []]


def test_a_store_that_dispatches_nothing_calls_nothing(tmp_path):
    store = reput.open(tmp_path / "store", plugins=PLUGINS)
    store.close()

    with pytest.raises(StoreClosedError):
        store.call_on_arrival(print)
    with (
        reput.open(tmp_path / "store", "r") as reader,
        pytest.raises(ReadOnlyStoreError),
    ):
        reader.call_on_arrival(print)


def test_a_distribution_that_is_missing_is_named_with_its_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "reput_aio", None)
    monkeypatch.delitem(vars(reput), "aio", raising=False)

    with reput.open(tmp_path / "store", plugins=[]) as store:
        receipt = store.put(Message("orders", b"1"))
        for use in (lambda: reput.aio, receipt.__await__):
            with pytest.raises(ModuleNotFoundError, match=r"pip install \./extras/aio") as caught:
                use()
            assert caught.value.name == "reput_aio"
