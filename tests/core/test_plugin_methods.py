"""What plugins offer beside the store: `reput.Store.plugin`, and its own methods on the store."""

from __future__ import annotations

import pytest
from openstores import plugin

import reput
from reput.errors import PluginError, StoreClosedError
from reput_testing import QuickDisk


class Greeting(reput.Plugin):
    """Greets whoever asks."""

    name = "greeting"

    def __init__(self, config=None):
        super().__init__(config)

    def greet(self, name):
        return f"hi {name}"


class Broken(Greeting):
    """Cannot be opened."""

    name = "broken"

    @reput.hookimpl
    def reput_open(self, context):
        raise OSError("no such thing")


def open_with(path, *plugins, mode="w"):
    return reput.open(path, mode, plugins=plugins, disk=QuickDisk(), threads=False)


# --------------------------------------------------------------------------- Store.plugin


@pytest.mark.parametrize("which", ["greeting", Greeting])
def test_a_plugin_is_called_by_its_name_or_its_class(tmp_path, which):
    with open_with(tmp_path, Greeting()) as store:
        written = store.plugin(which).greet("you")
    with open_with(tmp_path, Greeting(), mode="r") as store:
        read = store.plugin(which).greet("them")

    assert (written, read) == ("hi you", "hi them")


def test_a_plugin_is_found_by_a_class_above_its_own(tmp_path):
    class Polite(Greeting):
        name = "polite"

    with open_with(tmp_path, Polite()) as store:
        assert type(store.plugin(Greeting)) is Polite


@pytest.mark.parametrize("which", ["greeting", Greeting])
def test_a_plugin_that_the_store_does_not_use_is_no_ones_answer(tmp_path, which):
    other = plugin("other")
    with open_with(tmp_path, other, Greeting()) as store:
        store.remove_plugin("greeting")
        with pytest.raises(PluginError, match=r"'greeting'.* it uses other"):
            store.plugin(which)


def test_a_plugin_that_could_not_be_opened_offers_nothing(tmp_path):
    with open_with(tmp_path, Broken()) as store:
        with pytest.raises(PluginError, match=r"'broken'.* could not be opened: .*no such thing"):
            store.plugin("broken")


def test_a_read_names_the_plugin_that_could_not_be_opened_and_no_other(tmp_path):
    class BrokenReader(Broken):
        @reput.hookimpl
        def reput_read(self):
            return None

    another = plugin("another", reput_read=lambda self: None)  # reads other topics
    with open_with(tmp_path, another, BrokenReader()) as store:
        with pytest.raises(PluginError, match=r"'broken'.* could not be opened: .*no such thing"):
            store.read("T", 0, 0)


def test_a_closed_store_has_no_plugins_to_call(tmp_path):
    store = open_with(tmp_path, Greeting())
    store.close()

    with pytest.raises(StoreClosedError):
        store.plugin("greeting")


@pytest.mark.parametrize("which", [None, 5, object, Greeting()])
def test_what_names_no_plugin_is_refused(tmp_path, which):
    with open_with(tmp_path, Greeting()) as store, pytest.raises(TypeError, match="which: "):
        store.plugin(which)


@pytest.mark.parametrize("error", [ValueError("no idea"), SystemExit("no idea")])
def test_a_plugin_that_cannot_report_leaves_the_other_facts_as_they_are(tmp_path, error):
    def broken(self):
        raise error

    silent, sound = (
        plugin("silent", reput_report=broken),
        plugin("sound", reput_report=lambda self: {"count": 5}),
    )
    with open_with(tmp_path, silent, sound) as store:
        facts = store.report()["plugins"]

    assert facts["silent"]["report_error"] == "no idea"
    assert facts["sound"]["count"] == 5


# --------------------------------------------------------------------------- Plugin.store_methods


class Named(Greeting):
    """Is installed for one method."""

    name = "named"
    store_methods = frozenset({"greet", "put"})

    def put(self, message):
        raise AssertionError("the store has that name itself")


def test_a_method_that_a_plugin_is_installed_for_is_the_stores_without_a_warning(tmp_path):
    with open_with(tmp_path, Named(), Greeting()) as store:  # warnings are errors here
        assert store.greet("you") == "hi you"
        assert store.put(reput.Message("T", b"1")).queue_offset == 0
        with pytest.raises(AttributeError, match="neither the store nor one of its plugins"):
            store.leave("you")


def test_the_method_of_a_plugin_that_could_not_be_opened_says_so(tmp_path):
    class BrokenNamed(Broken):
        store_methods = frozenset({"greet"})

    with open_with(tmp_path, BrokenNamed()) as store:
        with pytest.raises(PluginError, match="could not be opened"):
            store.greet("you")


# --------------------------------------------------------------------------- StoreAccess


class Reader(reput.Plugin):
    """Reads its store as a plugin does."""

    name = "reader"

    @reput.hookimpl
    def reput_open(self, context):
        self.context = context


class Answers(reput.Plugin):
    """Has a queue of its own making, and filters that select nothing."""

    name = "answers"

    @reput.hookimpl
    def reput_offset_by_time(self, timestamp, boundary):
        return timestamp + (boundary == "upper")

    @reput.hookimpl
    def reput_filter(self, expression):
        return Nothing() if expression == "nothing" else None

    @reput.hookimpl
    def reput_read(self, queue_offset, filter):  # noqa: A002
        assert filter is None or isinstance(filter, Nothing)
        return reput.ReadResult(reput.ReadStatus.OFFSET_OVERFLOW_ONE, queue_offset, 0, 0)


class Nothing:
    def matches(self, message):
        return False

    def matches_batch(self, batch):
        return batch.size < 0

    def may_match(self, tags_codes, bit_maps, store_timestamps):
        return tags_codes < tags_codes


def test_a_plugin_reads_its_store_by_time_and_with_filters(tmp_path):
    with open_with(tmp_path, Reader(), Answers()) as store:
        access = store.plugin("reader").context.store

        assert access.offset_by_time("T", 0, 5, "lower") == 5
        assert access.offset_by_time("T", 0, 5, "upper") == 6
        chosen = access.filter("nothing", topic="T")
        assert access.read("T", 0, 7, filter=chosen).next_queue_offset == 7

    with pytest.raises(StoreClosedError):
        access.filter("nothing", topic="T")


def test_a_plugin_sees_whether_it_gets_messages(tmp_path):
    with open_with(tmp_path, Reader()) as store:
        access = store.plugin("reader").context.store

        assert access.gets_messages
        store.suspend_plugin("reader")
        assert not access.gets_messages
        store.resume_plugin("reader")
        assert store.plugin("reader").context.store.gets_messages
    with reput.open(tmp_path, "r", plugins=[Reader()]) as store:
        assert not store.plugin("reader").context.store.gets_messages
