"""`wait_dispatched` says so when a plugin that gets no messages has not seen all of the log."""

from __future__ import annotations

import pytest

import reput
from reput.errors import PluginError


class Refusing(reput.Plugin):
    """Fails at every message."""

    name = "refusing"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        raise ValueError("not today")


class Taking(reput.Plugin):
    """Takes every message."""

    name = "taking"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass


@pytest.fixture
def store(tmp_path):
    config = {"dispatch": {"retry_count": 0}}
    with reput.open(tmp_path / "store", plugins=[Refusing(), Taking()], config=config) as store:
        yield store


def test_a_suspended_plugin_is_named_in_the_log(store, caplog):
    assert store.wait_dispatched()
    assert caplog.text == ""
    store.put(reput.Message("orders", b"body"))

    assert store.wait_dispatched()

    lines = [record.getMessage() for record in caplog.records]
    assert "the plugin gets no messages, so waiting ended plugin=refusing" in lines
    assert not any("plugin=taking" in line for line in lines)


def test_a_suspended_plugin_is_an_error_where_it_is_asked_for(store, caplog):
    store.put(reput.Message("orders", b"body"))

    with pytest.raises(PluginError, match=r"refusing.*gets no messages"):
        store.wait_dispatched(raise_suspended=True)
    caplog.clear()
    assert store.wait_dispatched(plugins=["taking"], raise_suspended=True)
    assert caplog.text == ""
