"""A change of `rows` without a new version is reported, and a change of its looks is not."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import textwrap

import pytest

import reput
from reput_table.rowscode import code_mark

PLUGIN = '''
from reput_table import Schema, TablePlugin

def size_of(batch):
    return batch.body.sizes

class Sized(TablePlugin):
    name = "sized"
    schema = Schema(columns={"size": int})

    def rows(self, batch):
        """Return sizes."""
        return {"size": size_of(batch) + self.added()}  # all of them

    @staticmethod
    def added():
        return 0
'''
_names = (f"sized_{number}" for number in itertools.count())


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Return a function that makes the plugin's class, with some of its source replaced."""

    def make(old="", new=""):
        assert old in PLUGIN
        name = next(_names)
        path = tmp_path / f"{name}.py"
        path.write_text(PLUGIN.replace(old, new))
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module.Sized

    return make


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  # all of them", "\n"),
        ('"""Return sizes."""', '"""Give sizes."""'),
        (
            "def rows(self, batch):",
            "def rows(\n        self,\n        batch: 'str',\n    ) -> 'dict':",
        ),
        ('{"size": size_of(batch) + self.added()}', "{\n'size': (size_of(batch) + self.added()),}"),
        ('name = "sized"', 'name = "sized"\n    part_size = 1 << 20'),
    ],
)
def test_looks_and_other_members_do_not_matter(made, old, new):
    assert code_mark(made(old, new)) == code_mark(made()) > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"size": size_of', '"size": 2 * size_of'),
        ("return batch.body.sizes", "return batch.size"),
        ("return 0", "return 1"),
    ],
)
def test_other_code_in_rows_or_in_what_it_calls_is_reported(made, tmp_path, caplog, old, new):
    root = tmp_path / "store"
    with reput.open(root, plugins=[made()()]) as store:
        store.put(reput.Message("t", b"one"))
    with reput.open(root, plugins=[made()()]):
        assert "rows()" not in caplog.text

    changed = made(old, new)
    with reput.open(root, plugins=[changed()]) as store:
        assert "write version = 2 in Sized" in caplog.text
        before = store.plugin("sized").query("SELECT size FROM sized")

    caplog.clear()
    changed.version = 2
    with reput.open(root, plugins=[changed()]) as store:
        store.wait_dispatched()
        assert store.plugin("sized").query("SELECT size FROM sized") != before
    with reput.open(root, plugins=[changed()]):
        assert "rows()" not in caplog.text


PACKAGE = {
    "__init__": "",
    "first": """
        def clean(batch):
            return "first"

        class Cleaner:
            def clean(self, batch):
                return "method"
        """,
    "second": """
        import functools

        def clean(batch):
            return "second"

        def add(batch, *, number):
            return "partial"

        def logged(function):
            @functools.wraps(function)
            def call(*args):
                return "wrapper", function(*args)
            return call

        def counted(function):
            def call(*args):
                return function(*args)
            return call
        """,
    "plugin": """
        import functools

        import cleaned.first
        from cleaned import second
        from cleaned.first import Cleaner
        from reput_table import TablePlugin

        cleaner = Cleaner()
        added = functools.partial(second.add, number=1)

        @functools.cache
        def cached(batch):
            return "cached"

        @second.logged
        def wrapped(batch):
            return "wrapped"

        @second.counted
        def one(batch):
            return "one"

        @second.counted
        def two(batch):
            return "two"

        class Base(TablePlugin):
            def rows(self, batch):
                return "base"

        class Cleaned(Base):
            def rows(self, batch):
                found = [cleaned.first.clean(batch), second.clean(batch), cleaner.clean(batch)]
                found += [each(batch) for each in (added, cached, wrapped, one, two)]
                return [*found, self.width, self.height, super().rows(batch)]

            @property
            def width(self):
                return "property"

            @functools.cached_property
            def height(self):
                return "cached property"

            def unused(self):
                return "unused"
        """,
}


def test_code_is_found_in_other_modules_and_below_decorators(tmp_path, monkeypatch):
    def mark(old="", new=""):
        directory = tmp_path / next(_names)
        (directory / "cleaned").mkdir(parents=True)
        for name, text in PACKAGE.items():
            changed = textwrap.dedent(text).replace(old, new)
            (directory / "cleaned" / f"{name}.py").write_text(changed)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(directory)
            found = code_mark(importlib.import_module("cleaned.plugin").Cleaned)
        for name in ("cleaned", *(f"cleaned.{each}" for each in PACKAGE)):
            sys.modules.pop(name, None)
        return found

    texts = ["first", "second", "method", "partial", "cached", "wrapper", "wrapped", "one", "two"]
    texts += ["property", "cached property", "base"]
    assert mark() == mark('"unused"', "1") > 0
    marks = {each: mark(f'"{each}"', '"changed"') for each in texts}
    assert [each for each in texts if marks[each] == mark()] == []


def test_code_without_a_source_has_no_mark():
    namespace = {"__name__": "made_up"}
    exec(PLUGIN, namespace)

    assert code_mark(namespace["Sized"]) == 0


ODD = """
from unittest.mock import Mock, call

class Lazy:
    def __getattr__(self, name):
        raise ImportError(name)

    def __call__(self):
        pass

    @property
    def __class__(self):
        raise ImportError("the class")

class Unbound(Lazy):
    @property
    def __wrapped__(self):
        raise RuntimeError("unbound")

lazy, unbound, mock = Lazy(), Unbound(), Mock(spec=lambda: 0)

def around_call():
    return 0

def around_itself():
    return 0

around_call.__wrapped__ = call
around_itself.__wrapped__ = around_itself
"""


@pytest.mark.parametrize(
    ("name", "is_known"),
    [
        ("call", True),
        ("mock", True),
        ("lazy", True),
        ("lazy.loads", True),
        ("around_call", True),
        ("around_itself", False),
        ("unbound", False),
    ],
)
def test_objects_that_answer_every_name_or_refuse_do_not_stop_a_plugin(made, name, is_known):
    kind = made("return batch.body.sizes", f"return {name}\n{ODD}")

    assert (code_mark(kind) > 0) == is_known
