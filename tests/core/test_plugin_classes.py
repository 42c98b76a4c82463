"""Of a plugin's class that cannot be made, one line tells what is wrong with it."""

from __future__ import annotations

import sys
from typing import ClassVar

import attrs
import pytest
from unusableplugin import install_unusable_plugin

import reput
from reput.errors import ConfigError, PluginError
from reput.plugin.base import NoConfig

SMALL = {"commitlog": {"file_size": 4096}}


class Dispatching(reput.Plugin):
    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass


@attrs.define(eq=False)
class NoFieldsPlugin(Dispatching):
    """An attrs class that does not declare ``config``."""


@attrs.define(eq=False)
class OtherFieldPlugin(Dispatching):
    """What it declares first is not its configuration."""

    seen: int = 0


@attrs.define(eq=False, kw_only=True)
class KeywordPlugin(Dispatching):
    config: NoConfig = attrs.field(factory=NoConfig)


class NoArgumentPlugin(Dispatching):
    def __init__(self):
        pass


class RaisingPlugin(Dispatching):
    def __init__(self, config=None):
        raise RuntimeError("not today")


class NoAttrsConfigPlugin(Dispatching):
    config_type: ClassVar[type] = dict


@attrs.frozen(kw_only=True)
class PairConfig:
    low: int = 0
    high: int = 10

    def __attrs_post_init__(self):
        if self.low == 9 and self.high == 12:
            raise ValueError("9 and 12 exclude each other")


class PairPlugin(Dispatching):
    config_type: ClassVar[type] = PairConfig


class OwnNamePlugin(Dispatching):
    """No attrs class; it calls its configuration what it likes."""

    def __init__(self, options):
        self.options = options


FAULTS = {
    NoFieldsPlugin: "'config'",
    OtherFieldPlugin: "'config'",
    NoArgumentPlugin: "NoArgumentPlugin",
    RaisingPlugin: "RuntimeError: not today",
    NoAttrsConfigPlugin: "config_type",
}


@pytest.mark.parametrize("plugin", FAULTS)
def test_a_class_that_cannot_be_made_is_a_plugin_error_that_names_it(plugin):
    with pytest.raises(PluginError) as raised:
        plugin.from_section("unusable", {})

    assert raised.value.plugin == "unusable"
    assert FAULTS[plugin] in str(raised.value)
    assert plugin.__name__ in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("plugin", [KeywordPlugin, OwnNamePlugin])
def test_a_class_that_takes_its_configuration_in_another_way_can_be_made(plugin):
    made = plugin.from_section("unusable", {})

    assert NoConfig() in (getattr(made, "config", None), getattr(made, "options", None))


def test_options_that_exclude_each_other_are_a_config_error():
    with pytest.raises(ConfigError, match="9 and 12 exclude"):
        PairPlugin.from_section("pair", {"low": 9, "high": 12})


@pytest.mark.parametrize("plugin", [Dispatching, NoFieldsPlugin])
def test_a_class_in_place_of_an_object_is_refused_with_what_to_write(tmp_path, plugin):
    with pytest.raises(PluginError, match=rf"{plugin.__name__}\(\)"):
        reput.open(tmp_path / "store", plugins=[plugin], config=SMALL)

    assert not (tmp_path / "store").exists()


def test_an_object_without_configuration_serves_as_well_as_others(tmp_path):
    with reput.open(tmp_path / "store", plugins=[OtherFieldPlugin()], config=SMALL) as store:
        store.put(reput.Message("t", b"one"))
        store.wait_dispatched()

        assert store.report()["plugins"]["otherfield"]["message_count"] == 1


@pytest.fixture
def unusable_plugin(tmp_path, monkeypatch):
    """An installed plugin whose class has no ``config``."""
    monkeypatch.syspath_prepend(str(install_unusable_plugin(tmp_path / "installed")))
    yield
    sys.modules.pop("unusable_plugin", None)


def test_installed_it_is_refused_when_a_store_is_opened_or_given_it(tmp_path, unusable_plugin):
    with pytest.raises(PluginError, match=r"'unusable'.*'config'"):
        reput.open(tmp_path / "store", plugins=["unusable"], config=SMALL)
    with reput.open(tmp_path / "store", plugins=[], config=SMALL) as store:
        with pytest.raises(PluginError, match=r"'unusable'.*'config'"):
            store.add_plugin("unusable")
