"""Errors about a plugin that a store does not use name the step: what to open the store with."""

from __future__ import annotations

import pytest

import reput
from reput.errors import NoReaderError, PluginError, PluginNotFoundError

SOURCE = """
import reput

class ShelfPlugin(reput.Plugin):
    store_methods = frozenset({"zz_shelf"})

    def zz_shelf(self):
        return "books"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass

class BookPlugin(ShelfPlugin):
    store_methods = frozenset()
"""


class Given(reput.Plugin):
    """Is given as an object; nobody has installed it."""

    name = "given"

    @reput.hookimpl
    def reput_dispatch(self, batch):
        pass


@pytest.fixture(autouse=True)
def offered(tmp_path, monkeypatch):
    """A distribution that offers the plugins ``zz_shelf``, ``zz_book`` and ``filter``."""
    folder = tmp_path / "installed"
    about = folder / "zz-1.5.dist-info"
    about.mkdir(parents=True)
    module = f"offered_{tmp_path.name}"
    (folder / f"{module}.py").write_text(SOURCE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zz\nVersion: 1.5\n")
    plugins = {"zz_shelf": "ShelfPlugin", "zz_book": "BookPlugin", "filter": "BookPlugin"}
    lines = [f"{name} = {module}:{kind}" for name, kind in plugins.items()]
    (about / "entry_points.txt").write_text("\n".join(["[reput.plugins]", *lines]))
    monkeypatch.syspath_prepend(str(folder))


def test_the_error_about_plugins_that_are_left_out_names_all_at_once(tmp_path):
    reput.open(tmp_path / "store", plugins=["zz_shelf", "zz_book", Given()]).close()

    with pytest.raises(PluginError) as caught:
        reput.open(tmp_path / "store", plugins=[Given()])

    text = str(caught.value)
    assert "uses zz_book, zz_shelf," in text
    assert "plugins=[Given(…), 'zz_book', 'zz_shelf']" in text
    assert "forget=['zz_book', 'zz_shelf']" in text


def test_the_plugins_that_an_error_names_open_the_store(tmp_path):
    reput.open(tmp_path / "store", plugins=["zz_shelf"]).close()
    with pytest.raises(PluginError, match=r"plugins=\['zz_book', 'zz_shelf'\]"):
        reput.open(tmp_path / "store", plugins=["zz_book"])

    with reput.open(tmp_path / "store", plugins=["zz_book", "zz_shelf"]) as store:
        assert store.plugin_objects.keys() == {"zz_book", "zz_shelf"}


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("zz_shelv", "did you mean 'zz_shelf'?"),
        ("nothing_like_it", "install the distribution that offers it"),
    ],
)
def test_a_plugin_that_is_not_installed_is_an_error_with_a_step(tmp_path, name, step):
    with pytest.raises(PluginNotFoundError) as caught:
        reput.open(tmp_path / "store", plugins=[name])

    assert step in str(caught.value)


def test_a_method_of_a_plugin_that_the_store_does_not_use_names_the_plugin(tmp_path):
    with reput.open(tmp_path / "store", plugins=[Given(), "zz_book"]) as store:
        with pytest.raises(AttributeError, match=r"plugins=\[Given\(…\), 'zz_book', 'zz_shelf'\]"):
            store.zz_shelf()
        with pytest.raises(AttributeError, match=r"has 'zz_book'$"):
            store.zz_book()


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("zz_shelf", "open the store with plugins=['zz_book', 'zz_shelf']"),
        ("zz_bok", "did you mean 'zz_book'?"),
        ("nothing_like_it", "it is not installed (reput does not have it: install"),
    ],
)
def test_a_plugin_that_the_store_does_not_use_is_an_error_with_a_step(tmp_path, name, step):
    with reput.open(tmp_path / "store", plugins=["zz_book"]) as store:
        with pytest.raises(PluginError) as caught:
            store.plugin(name)

    assert step in str(caught.value)


def test_a_filter_without_its_plugin_names_the_step(tmp_path):
    with reput.open(tmp_path / "store", plugins=["zz_book"]) as store:
        with pytest.raises(NoReaderError) as caught:
            store.filter("TAGS = 'new'")

    assert "open the store with plugins=['zz_book', 'filter']" in str(caught.value)
    assert "pip install ./plugins/filter" in str(NoReaderError("filter", "filter"))
