"""Which plugins a new store has whose maker names none: those of the group ``reput.defaults``."""

from __future__ import annotations

import logging
import shutil
import sys

import pytest
import statefiles

import reput
from reput.errors import ConfigError, PluginError, PluginNotFoundError
from reput.plugin import default_plugins, installed

SMALL = {"commitlog": {"file_size": 4096}}
SOURCE = """
import attrs
import reput

@attrs.frozen(kw_only=True)
class Config:
    size: int = attrs.field(default=7, validator=attrs.validators.instance_of(int))

class ShelfPlugin(reput.Plugin):
    config_type = Config

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass

class BookPlugin(ShelfPlugin):
    requires = frozenset({"zz_shelf"})

@attrs.frozen(kw_only=True)
class Rules:
    most: int = 0

class PolicyPlugin(reput.Plugin):
    config_type = Rules
    is_policy = True

class MisspelledPlugin(reput.Plugin):
    def reput_dispach(self, batch):
        pass
"""


@pytest.fixture
def offer(tmp_path, monkeypatch):
    """``offer("zz_shelf", "ShelfPlugin")``: as if a distribution offered that plugin."""
    folder = tmp_path / "installed"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def add(name, class_name, *, is_default=True, source=SOURCE, by=None):
        module = f"offered_{name}_{tmp_path.name}"
        (folder / f"{module}.py").write_text(source, encoding="utf-8")
        about = folder / f"{name}-1.5.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        lines = ["[reput.plugins]", f"{name} = {module}:{class_name}"]
        if is_default:
            lines += ["[reput.defaults]", f"{by or name} = {module}:{class_name}"]
        (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
        return module

    return add


def new_store(tmp_path, **options):
    """A store whose maker names no plugins."""
    return reput.open(tmp_path / "store", config=options.pop("config", SMALL), **options)


def test_a_new_store_has_the_defaults_and_imports_no_other_plugin(offer, tmp_path):
    offer("zz_shelf", "ShelfPlugin")
    other = offer("zz_other", "ShelfPlugin", is_default=False)

    with new_store(tmp_path) as store:
        used = set(store.plugin_objects)

    assert "zz_shelf" in used
    assert "zz_other" not in used
    assert other not in sys.modules


@pytest.mark.parametrize("is_default", [False, True])
@pytest.mark.parametrize("end", ["raise ImportError('not here')", "raise SystemExit('not here')"])
def test_a_broken_package_does_not_keep_a_new_store_from_opening(
    offer, tmp_path, caplog, end, is_default
):
    offer("zz_broken", "BrokenPlugin", is_default=is_default, source=end)
    offer("zz_shelf", "ShelfPlugin")

    with caplog.at_level(logging.WARNING), new_store(tmp_path) as store:
        used = set(store.plugin_objects)

    assert "zz_broken" not in used
    assert "zz_shelf" in used
    told = [record.getMessage() for record in caplog.records if "zz_broken" in record.getMessage()]
    assert len(set(told)) == is_default
    assert all("not here" in text and "zz_broken 1.5" in text for text in told)


@pytest.mark.parametrize("kind", ["MisspelledPlugin", "BookPlugin", "NoPlugin"])
def test_a_default_that_no_store_could_open_is_left_out(offer, tmp_path, caplog, kind):
    offer("zz_wrong", kind)

    with caplog.at_level(logging.WARNING), new_store(tmp_path) as store:
        used = set(store.plugin_objects)

    assert "zz_wrong" not in used
    assert [record for record in caplog.records if "zz_wrong" in record.getMessage()]


def test_a_default_that_needs_another_one_comes_with_it(offer):
    offer("zz_book", "BookPlugin")
    offer("zz_shelf", "ShelfPlugin")

    assert {"zz_book", "zz_shelf"} <= set(default_plugins())


def test_a_wrong_option_of_a_default_is_still_an_error(offer, tmp_path):
    offer("zz_shelf", "ShelfPlugin")

    with pytest.raises(ConfigError, match="zz_shelf"):
        new_store(tmp_path, config={**SMALL, "zz_shelf": {"size": "large"}})


def test_a_broken_plugin_that_is_named_is_still_an_error(offer, tmp_path):
    offer("zz_broken", "BrokenPlugin", source="raise SystemExit('not here')")

    with pytest.raises(PluginError, match="not here"):
        new_store(tmp_path, plugins=["zz_broken"])


def test_a_distribution_speaks_for_its_own_plugins_only(offer):
    offer("zz_other", "ShelfPlugin", is_default=False)
    offer("zz_shelf", "ShelfPlugin", by="zz_other")

    assert {"zz_other", "zz_shelf"}.isdisjoint(default_plugins())
    assert not any(found.is_default for found in installed() if found.name.startswith("zz_"))


# --------------------------------------------------------------------------- policies

RULES = {"zz_policy": {"most": 3}}


def manifest_of(root):
    return statefiles.manifest_of(root)


def recorded_alone(root):
    """A store whose manifest has options of the policy, and does not name it."""
    reput.open(root, plugins=[], config={**SMALL, **RULES}).close()
    assert manifest_of(root).plugins == ("zz_policy",)
    statefiles.change_manifest(root, lambda text: text.replace(b'["zz_policy"]', b"[]"))


@pytest.mark.parametrize("plugins", [None, ["zz_shelf"]])
def test_a_section_is_enough_for_a_policy(offer, tmp_path, plugins):
    offer("zz_policy", "PolicyPlugin", is_default=False)
    offer("zz_shelf", "ShelfPlugin")

    with new_store(tmp_path, config={**SMALL, **RULES}, plugins=plugins) as store:
        assert {"zz_shelf", "zz_policy"} <= set(store.plugin_objects)
        assert store.plugin("zz_policy").config.most == 3


def test_a_section_is_not_enough_for_a_plugin_that_has_files(offer, tmp_path):
    offer("zz_shelf", "ShelfPlugin")

    with pytest.raises(ConfigError, match="zz_shelf"):
        new_store(tmp_path, config={**SMALL, "zz_shelf": {"size": 3}}, plugins=[])


@pytest.mark.parametrize("mode", ["w", "r"])
@pytest.mark.parametrize("plugins", [None, []])
def test_options_that_are_recorded_for_a_policy_bring_it(offer, tmp_path, mode, plugins):
    offer("zz_policy", "PolicyPlugin")
    recorded_alone(tmp_path / "store")

    with reput.open(tmp_path / "store", mode, plugins=plugins) as store:
        assert store.plugin("zz_policy").config.most == 3


def test_a_store_may_be_opened_without_a_policy_that_has_no_options(offer, tmp_path):
    offer("zz_policy", "PolicyPlugin")
    with new_store(tmp_path) as store:
        assert "zz_policy" in store.plugin_objects
        others = set(store.plugin_objects) - {"zz_policy"}

    with new_store(tmp_path, plugins=others) as store:
        assert "zz_policy" not in store.plugin_objects
    with new_store(tmp_path) as store:
        assert "zz_policy" not in store.plugin_objects


def test_a_policy_that_is_given_up_loses_its_options(offer, tmp_path):
    offer("zz_policy", "PolicyPlugin")
    recorded_alone(tmp_path / "store")

    with reput.open(tmp_path / "store", forget=["zz_policy"]) as store:
        assert not store.plugin_objects
    assert "zz_policy" not in manifest_of(tmp_path / "store").config


def test_a_policy_with_recorded_options_that_is_not_installed_stops_a_writer_only(offer, tmp_path):
    offer("zz_policy", "PolicyPlugin")
    recorded_alone(tmp_path / "store")
    shutil.rmtree(tmp_path / "installed" / "zz_policy-1.5.dist-info")

    with pytest.raises(PluginNotFoundError, match="zz_policy"):
        reput.open(tmp_path / "store")
    for plugins in (None, []):
        with reput.open(tmp_path / "store", "r", plugins=plugins) as store:
            assert not store.plugin_objects
    assert manifest_of(tmp_path / "store").config["zz_policy"] == {"most": 3}
    reput.open(tmp_path / "store", forget=["zz_policy"]).close()


def test_a_section_of_an_own_plugin_that_is_not_installed_says_how_to_install_it(
    tmp_path, monkeypatch
):
    for module in ("store.config", "plugin.discovery"):
        monkeypatch.setattr(f"reput.{module}.is_own", lambda name: name == "zz_policy")

    with pytest.raises(ConfigError, match=r"pip install .*zz_policy"):
        new_store(tmp_path, config={**SMALL, **RULES}, plugins=[])
