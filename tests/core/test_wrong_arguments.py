"""A call with an argument of a wrong type names the argument, and what was found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import reput
from reput import errors
from reput.errors import PluginError
from reput.files import Disk

pytestmark = pytest.mark.shows("commands")

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"commitlog": {"file_size": 1 << 16}}
CALLS = {
    "read topic": lambda store: store.read(5, 0, 0),
    "read queue_id": lambda store: store.read("t", "0", 0),
    "read queue_offset": lambda store: store.read("t", 0, "0"),
    "read max_count": lambda store: store.read("t", 0, 0, "1"),
    "read max_bytes": lambda store: store.read("t", 0, 0, 1, 1.5),
    "read filter": lambda store: store.read("t", 0, 0, filter=5),
    "filter expression": lambda store: store.filter(5),
    "filter kind": lambda store: store.filter("a", 5),
    "offset_by_time queue_id": lambda store: store.offset_by_time("t", "0", 0),
    "offset_by_time timestamp": lambda store: store.offset_by_time("t", 0, "now"),
    "query key": lambda store: store.query("t", 5),
    "query limit": lambda store: store.query("t", "k", limit="1"),
    "query begin": lambda store: store.query("t", "k", 1.5),
    "get where": lambda store: store.get(1.5),
    "get where None": lambda store: store.get(None),
    "scan start": lambda store: store.scan("0"),
    "scan end": lambda store: store.scan(0, 1.5),
    "suspend_plugin plugin": lambda store: store.suspend_plugin(5),
    "resume_plugin plugin": lambda store: store.resume_plugin(None),
    "remove_plugin plugin": lambda store: store.remove_plugin([]),
    "dead_letters plugin": lambda store: store.dead_letters(5),
    "add_plugin plugin": lambda store: store.add_plugin(5),
    "add_plugin plugin None": lambda store: store.add_plugin(None),
    "add_plugin options": lambda store: store.add_plugin("index", 5),
    "add_plugin options text": lambda store: store.add_plugin("index", "a=b"),
    "wait_dispatched timeout": lambda store: store.wait_dispatched("1"),
    "wait_dispatched timeout flag": lambda store: store.wait_dispatched(True),
    "wait_dispatched progress": lambda store: store.wait_dispatched(progress=5),
    "wait_dispatched plugins": lambda store: store.wait_dispatched(plugins=5),
    "wait_dispatched plugins text": lambda store: store.wait_dispatched(plugins="index"),
    "wait_dispatched plugins inside": lambda store: store.wait_dispatched(plugins=[5]),
    "trim_log dry_run": lambda store: store.trim_log(0, dry_run="no"),
    "trim_log physical_offset": lambda store: store.trim_log("all", dry_run=True),
    "close timeout": lambda store: store.close("1"),
    "put message": lambda store: store.put("hello"),
    "put_many messages": lambda store: store.put_many("hello"),
    "put_many messages None": lambda store: store.put_many(None),
    "put_many message inside": lambda store: store.put_many([reput.Message("t"), 5]),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("arguments")
    with reput.open(path, plugins=[], config=SMALL) as opened:
        opened.put(reput.Message("t", b"one"))
        yield opened


@pytest.mark.parametrize("call", CALLS)
def test_an_argument_of_a_wrong_type_is_named(store, call):
    argument = call.split(" ")[1]

    with pytest.raises(TypeError, match=rf"^{argument}: .* expected, found "):
        CALLS[call](store)


OPENINGS = {
    "path": {"path": 5},
    "path None": {"path": None},
    "plugins": {"plugins": 5},
    "plugins text": {"plugins": "consumequeue"},
    "config": {"config": 5},
    "config list": {"config": []},
    "clock": {"clock": 5},
    "disk": {"disk": "local"},
    "forget": {"forget": "index"},
    "forget inside": {"forget": [5]},
    "progress": {"progress": 5},
    "threads": {"threads": "no"},
    "follow_links": {"follow_links": "no"},
}


@pytest.mark.parametrize("opening", OPENINGS)
def test_an_argument_of_a_wrong_type_is_named_before_anything_is_made(opening, tmp_path):
    arguments = {"path": tmp_path / "store", "plugins": [], **OPENINGS[opening]}

    with pytest.raises(TypeError, match=rf"^{opening.split(' ')[0]}: .* expected, found "):
        reput.open(**arguments)

    assert list(tmp_path.iterdir()) == []


WRONG_CONFIGURATIONS = {
    r"\[flush\]: .*config={'commitlog': {'flush': 'sync'}}": {"flush": "sync"},
    r"\[commitlogs\]: no such section; did you mean 'commitlog'": {"commitlogs": {}},
    "no such section; known: commitlog": {"nothing": {}},
    "known: .*file_size": {"commitlog": {"fil_size": 1}},
    "table": {"commitlog": 3},
    r"\[commitlog\] flush: 'async' or 'sync' expected, found 'no'": {"commitlog": {"flush": "no"}},
    "nowhere.toml: the configuration cannot be read: No such file": "nowhere.toml",
    __file__ + ": not valid TOML: ": __file__,
}


@pytest.mark.parametrize("text", WRONG_CONFIGURATIONS)
def test_a_wrong_configuration_is_named_with_what_is_right(text, tmp_path):
    with pytest.raises(errors.ConfigError, match=text):
        reput.open(tmp_path / "store", plugins=[], config=WRONG_CONFIGURATIONS[text])


def test_a_plugin_that_needs_another_says_how_to_open_the_store(tmp_path):
    class Needy(reput.Plugin):
        requires = frozenset({"consumequeue"})

    with pytest.raises(errors.PluginOrderError, match=r"plugins=\[.*, 'consumequeue'\]"):
        reput.open(tmp_path / "store", plugins=[Needy()])


def test_a_directory_that_may_not_be_read_is_named_itself(tmp_path):
    class Forbidden(Disk):
        def open(self, path, **options):
            raise PermissionError(13, "Permission denied", path)

        def exists(self, path):
            return True

    with pytest.raises(PermissionError) as caught:
        reput.open(tmp_path, mode="r", plugins=[], disk=Forbidden())

    assert caught.value.filename == str(tmp_path)


def test_a_column_with_one_row_is_not_a_value_for_all_rows(store):
    with pytest.raises(errors.MessageIllegalError, match="queue_id: 2 rows expected"):
        store.put_many(reput.Columns(topic="t", body=[b"a", b"b"], queue_id=[0]))


@pytest.mark.parametrize("many", [False, True])
def test_several_tags_are_reported_once(tmp_path, caplog, many):
    message = reput.Message("t", b"", tags="a||b")
    with reput.open(tmp_path, plugins=[], config=SMALL) as store:
        for _ in range(2):
            store.put_many([message]) if many else store.put(message)

    assert caplog.text.count("tags='a||b': a message has one tag") == 1


def test_a_path_may_be_bytes(tmp_path):
    with reput.open(bytes(tmp_path / "store"), plugins=[], config=SMALL) as store:
        assert store.root == str(tmp_path / "store")


def test_a_plugin_that_the_store_does_not_use_is_not_waited_for(store):
    with pytest.raises(PluginError, match="'index': the store does not use it"):
        store.wait_dispatched(plugins=["index"])


def test_what_is_no_time_is_refused_and_what_has_passed_is_not_waited_for(store):
    with pytest.raises(ValueError, match=r"^timeout: .* expected, found float nan"):
        store.wait_dispatched(float("nan"))

    assert store.wait_dispatched(-1)
    assert store.wait_dispatched(float("inf"))


def test_a_store_stays_open_where_it_is_not_told_how_long_to_wait(store):
    with pytest.raises(TypeError, match="timeout"):
        store.close([])

    assert not store.closed


def test_numbers_of_other_classes_are_numbers(store):
    assert store.get(np.int64(0)).body == b"one"


def test_every_error_that_is_raised_is_public():
    own = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type)
        and issubclass(value, errors.ReputError)
        and value.__module__ == errors.__name__
    }

    assert own
    assert own <= set(errors.__all__)


def wrong_option(store):
    reput.open(f"{store.root}-2", config={"commitlog": {"file_size": "x"}})


KINDS = {
    "option": (wrong_option, errors.ReputError),
    "message": (lambda store: store.put(reput.Message("no spaces", b"")), errors.ReputError),
    "plugin": (lambda store: store.plugin("nope"), errors.ReputError),
    "type": (lambda store: store.read("t", "0", 0), TypeError),
    "value": (lambda store: store.get("zz"), ValueError),
    "mode": (lambda store: reput.open(store.root, "rw"), ValueError),
    "method": (lambda store: store.nope(), AttributeError),
    "system": (lambda store: reput.open("/proc/self/nope", plugins=[]), OSError),
}


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_of_the_kinds_that_getting_started_names(store, kind):
    call, expected = KINDS[kind]

    with pytest.raises(expected) as raised:
        call(store)

    is_own = isinstance(raised.value, errors.ReputError)
    assert is_own == (expected is errors.ReputError)
    assert expected.__name__ in (ROOT / "docs" / "getting-started.md").read_text("utf-8")
