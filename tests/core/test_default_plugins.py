"""Which plugins a new store has whose maker names none: those of the group ``reput.defaults``."""

from __future__ import annotations

import logging
import sys

import pytest

import reput
from reput.errors import ConfigError, PluginError
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
