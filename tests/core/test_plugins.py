"""Which plugins a store uses, in what order they are called, and what a failing one stops."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import ClassVar

import attrs
import numpy as np
import pytest

import reput
from reput.dispatch.runtime.readgroup import ReadGroup
from reput.errors import (
    ConfigError,
    MessageIllegalError,
    PluginError,
    PluginNotFoundError,
)
from reput.plugin import PluginSet, dispatch_order, hooktable, how_to_install, plugin_name
from reput.plugin.hooktable import PluginHooks

pytestmark = pytest.mark.sizes(dispatch={"retry_pause_ms": 1})

SMALL = {"commitlog": {"file_size": 4096}}


@attrs.frozen(kw_only=True)
class CounterConfig:
    """Options of the counter."""

    step: int = attrs.field(default=1, validator=attrs.validators.instance_of(int))
    """What a message counts."""


@attrs.define(eq=False)
class CounterPlugin(reput.Plugin):
    """Remembers the physical offsets it was given; in memory only, so it starts at 0 each time."""

    config_type: ClassVar[type] = CounterConfig
    config: CounterConfig = attrs.field(factory=CounterConfig)
    seen: list[int] = attrs.field(factory=list)
    calls: list[str] = attrs.field(factory=list)
    tags: list[int] = attrs.field(factory=list)

    @reput.hookimpl
    def reput_open(self, context):
        self.calls.append("open")
        self.context = context

    @reput.hookimpl
    def reput_recover(self):
        self.calls.append("recover")
        return 0

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.seen += batch.physical_offset.tolist()
        self.tags += batch.tags_code.tolist()

    @reput.hookimpl
    def reput_flush(self):
        self.calls.append("flush")

    @reput.hookimpl
    def reput_close(self):
        self.calls.append("close")


def other(name, **members):
    """A plugin class of that name, with hooks given as plain functions."""
    made = {key: reput.hookimpl(f) if callable(f) else f for key, f in members.items()}
    return type(f"{name.capitalize()}Plugin", (reput.Plugin,), made)()


def open_with(path, *plugins, **options):
    return reput.open(path, plugins=plugins, config=options.pop("config", SMALL), **options)


def test_a_plugin_sees_every_message_in_order_through_the_life_of_a_store(tmp_path):
    plugin = CounterPlugin()
    with open_with(tmp_path, plugin) as store:
        receipts = [store.put(reput.Message("T", b"%d" % n)) for n in range(200)]
        assert store.wait_dispatched(10)
        assert plugin.seen == [receipt.physical_offset for receipt in receipts]
        store.flush()

    assert plugin.calls[:3] == ["open", "recover", "flush"]
    assert plugin.calls[-1] == "close"
    assert (plugin.context.plugin, plugin.context.writable) == ("counter", True)


def test_plugins_run_in_declared_order_and_ties_by_name():
    late = other("a", runs_after=frozenset({"z"}))
    plugins = {
        "m": other("m"),
        "a": late,
        "z": other("z"),
        "b": other("b", requires=frozenset({"a"})),
    }

    assert dispatch_order(plugins) == ["m", "z", "a", "b"]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"reput_dispach": lambda self, batch: None}, "a hook of reput; known: .*reput_dispatch"),
        ({"reput_dispatch": lambda self, bach: None}, "takes bach; the hook has batch"),
    ],
)
def test_a_hook_that_does_not_exist_is_an_error_when_the_store_opens(tmp_path, members, text):
    with pytest.raises(PluginError, match=text):
        open_with(tmp_path, other("wrong", **members))
    assert not (tmp_path / "abort").exists()
    open_with(tmp_path).close()


def test_a_hook_that_is_not_marked_is_an_error(tmp_path):
    class ForgetfulPlugin(reput.Plugin):
        def reput_dispatch(self, batch):
            pass

    for _ in range(2):  # only what is right is remembered
        with pytest.raises(PluginError, match=r"not marked with @reput\.hookimpl"):
            open_with(tmp_path, ForgetfulPlugin())


def test_a_class_is_checked_once_and_each_object_has_hooks_of_its_own(monkeypatch):
    class CountingPlugin(reput.Plugin):
        def __init__(self, seen):
            self.seen = seen

        @reput.hookimpl(tryfirst=True)
        def reput_read(self, topic):
            self.seen.append(topic)

    first, second = CountingPlugin([]), CountingPlugin([])
    PluginHooks.of("counting", first).read(topic="a")
    monkeypatch.setattr(hooktable._Manager, "implementations", None)

    hooks = PluginHooks.of("counting", second)

    hooks.read(topic="b", queue_id=0)
    assert (first.seen, second.seen) == (["a"], ["b"])
    assert (hooks.takes["read"], hooks.ranks["read"]) == (frozenset({"topic"}), -1)


@pytest.mark.parametrize(
    ("hook", "option"),
    [
        ("reput_dispatch", {"wrapper": True}),
        ("reput_dispatch", {"hookwrapper": True}),
        ("reput_flush", {"specname": "reput_close"}),
        ("reput_dispatch", {"tryfirst": True}),
        ("reput_read", {"trylast": True, "wrapper": True}),
    ],
)
def test_an_option_of_a_hook_that_would_not_be_heeded_is_an_error(tmp_path, hook, option):
    def implementation(self):
        yield

    marked = type("OddPlugin", (reput.Plugin,), {hook: reput.hookimpl(**option)(implementation)})

    with pytest.raises(PluginError, match=f"{hook} is marked with "):
        open_with(tmp_path, marked())


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a\0b", "a" * 250, "\ud800"])
def test_a_name_that_no_file_can_have_is_no_plugins_name(tmp_path, name):
    odd = type("OddPlugin", (reput.Plugin,), {"name": name})()

    with pytest.raises(PluginError, match="files are named after it"):
        open_with(tmp_path, odd)
    assert not (tmp_path / "abort").exists()


def test_what_is_not_installed_is_an_error_that_says_what_is(tmp_path):
    with pytest.raises(PluginNotFoundError, match="reput does not have it") as caught:
        open_with(tmp_path, "nonsense")
    assert "pip" not in str(caught.value), "a third party's name must not get installed"
    with pytest.raises(PluginError, match=r"reput\.Plugin object expected"):
        open_with(tmp_path, 7)


@pytest.mark.parametrize("name", ["index", "consumequeue"])
def test_a_plugin_of_our_own_has_the_command_that_installs_it(name):
    assert how_to_install(name).endswith(f"pip install ./plugins/{name} (in a checkout of reput)")


@pytest.mark.parametrize("name", ["nonsense", "index; rm -rf /", "index>=0", "", "Index", "cli "])
def test_another_name_has_no_command(name):
    assert "pip" not in how_to_install(name)


def test_a_store_is_not_opened_without_a_plugin_that_it_uses(tmp_path):
    open_with(tmp_path, CounterPlugin()).close()

    with pytest.raises(PluginError, match=r"forget=\['counter'\]"):
        open_with(tmp_path)
    with pytest.raises(PluginNotFoundError, match="counter"):
        reput.open(tmp_path)
    reput.open(tmp_path, "r", plugins=[]).close()
    open_with(tmp_path, forget={"counter"}).close()
    open_with(tmp_path).close()


def test_a_plugins_options_come_from_its_section_and_unknown_ones_are_errors():
    assert CounterPlugin.from_section("counter", {"step": 3}).config.step == 3
    with pytest.raises(ConfigError, match="known: step"):
        CounterPlugin.from_section("counter", {"stepp": 3})
    with pytest.raises(ConfigError, match="step"):
        CounterPlugin.from_section("counter", {"step": "three"})
    with pytest.raises(ConfigError, match=r"did you mean .counter..*known: commitlog, counter"):
        PluginSet([CounterPlugin()], {"cuonter": {}})


def test_options_are_checked_together_and_the_one_that_is_wrong_is_named():
    @attrs.frozen(kw_only=True)
    class RangeConfig:
        low: int = attrs.field(validator=attrs.validators.instance_of(int))
        high: int = 10

        def __attrs_post_init__(self):
            if self.low > self.high:
                raise ValueError(f"{self.low} is above {self.high}")

    class RangePlugin(reput.Plugin):
        config_type = RangeConfig

    def refused(**options):
        with pytest.raises(ConfigError) as caught:
            RangePlugin.from_section("range", options)
        return caught.value.option

    assert RangePlugin.from_section("range", {"low": 20, "high": 30}).config.low == 20
    assert refused(low=20, high=15) == "low, high"
    assert refused(low=20) == "low"
    assert refused(low="one", high=2) == "low"
    assert refused(high=2) == "high"
    assert refused() == "(section)"


def test_a_plugin_object_is_called_by_its_name_or_its_class():
    class NamedPlugin(reput.Plugin):
        name = "called"

    assert (plugin_name(CounterPlugin()), plugin_name(NamedPlugin())) == ("counter", "called")


def test_added_columns_are_seen_by_every_dispatcher_and_by_nobody_else(tmp_path):
    def enrich(self, batch):
        return {"tags_code": np.full(len(batch), 7), "mine": np.arange(len(batch))}

    found = []
    counter = CounterPlugin()
    reader = other("reader", reput_dispatch=lambda self, batch: found.append(batch.column("mine")))
    with open_with(tmp_path, other("enricher", reput_enrich=enrich), counter, reader) as store:
        store.put_many([reput.Message("T", tags="TagA")] * 5)
        assert store.wait_dispatched(10)
        assert [batch.tags_code.tolist() for batch in store.scan()] == [[2598919] * 5]

    assert counter.tags == [7] * 5
    assert sum(map(len, found)) == 5


@pytest.mark.sizes(commitlog={"window_size": 4096})
def test_one_that_is_behind_gets_its_windows_beside_the_live_ones_and_joins_them(tmp_path):
    config = {"commitlog": {"file_size": 1 << 20}}
    with open_with(tmp_path, config=config) as store:
        store.put_many([reput.Message("T", b"x" * 100)] * 2000)
    order = []
    live_is_put = threading.Event()

    class Newcomer(reput.Plugin):
        @reput.hookimpl
        def reput_dispatch(self, batch):
            live_is_put.wait(10)
            order.append(("newcomer", batch.start_offset, batch.end_offset))

    class Settled(reput.Plugin):
        @reput.hookimpl
        def reput_recover(self, progress, max_physical_offset):
            return progress

        @reput.hookimpl
        def reput_dispatch(self, batch):
            order.append(("settled", batch.start_offset, batch.end_offset))

    with open_with(tmp_path, Settled(), config=config) as store:
        assert store.wait_dispatched(10)
        end = store.log.max_physical_offset
    order.clear()
    with open_with(tmp_path, Settled(), Newcomer(), config=config) as store:
        live = store.put(reput.Message("T", b"live")).physical_offset
        live_is_put.set()
        assert store.wait_dispatched(10)

    settled = [entry for entry in order if entry[0] == "settled"]
    newcomer = [entry for entry in order if entry[0] == "newcomer"]
    assert [entry[1:] for entry in settled] == [(live, settled[-1][2])]
    assert newcomer[0][1] == 0
    assert all(a[2] == b[1] for a, b in itertools.pairwise(newcomer))
    assert newcomer[-1][2] == settled[-1][2] > end
    # The live message did not wait for the two thousand old ones.
    assert order.index(settled[0]) < len(order) - 1


def test_put_hooks_rewrite_and_refuse_messages(tmp_path):
    def rewrite(self, messages):
        if any(message.body == b"no" for message in messages):
            raise MessageIllegalError("body", None, None, "refused by a plugin")
        return [attrs.evolve(message, topic="rewritten") for message in messages]

    with open_with(tmp_path, other("rewriter", reput_put=rewrite)) as store:
        one = store.put(reput.Message("T", b"1"))
        many = store.put_many(reput.Columns(topic="T", body=[b"2", b"3"]))
        with pytest.raises(MessageIllegalError, match="refused by a plugin"):
            store.put(reput.Message("T", b"no"))

        assert [store.get(r.msg_id).topic for r in (one, *many)] == ["rewritten"] * 3


def test_a_put_hook_that_loses_messages_is_an_error(tmp_path):
    with open_with(tmp_path, other("loser", reput_put=lambda self, messages: [])) as store:
        with pytest.raises(PluginError, match="returned 0 messages for 1"):
            store.put(reput.Message("T"))


def test_a_message_put_alone_is_dispatched_without_another_push(tmp_path):
    arrived = threading.Event()
    waker = other("waker", reput_arrive=lambda self, batch: arrived.set())
    with open_with(tmp_path, waker, CounterPlugin()) as store:
        for _ in range(20):
            arrived.clear()
            store.put(reput.Message("T"))
            assert arrived.wait(10)


@pytest.mark.parametrize("has_reads", [True, False])
def test_readers_are_woken_again_by_a_plugin_that_they_read_and_that_is_later(tmp_path, has_reads):
    woken = []
    members = {"reput_dispatch": lambda self, batch: None}
    if has_reads:
        members["reput_read"] = lambda self: None
    waker = other("waker", reput_arrive=lambda self, batch: woken.append(batch.end_offset))
    plugins = other("late", **members), waker, CounterPlugin()
    with open_with(tmp_path, *plugins, threads=False) as store:
        parts = store._parts.writing().members
        late = parts.board.runners["late"]
        late.group = ReadGroup(parts.loop.feed, is_shared=False)
        end = store.put(reput.Message("T")).end_offset
        while parts.loop.shared.step():
            pass
        assert woken == [end]

        while late.group.step():
            pass

        assert woken == [end] * (1 + has_reads)


def test_with_synchronous_flushing_nothing_is_dispatched_before_it_is_on_disk(tmp_path):
    class WatchingPlugin(CounterPlugin):
        @reput.hookimpl
        def reput_dispatch(self, batch):
            assert batch.end_offset <= self.context.log.flushed_offset
            self.seen += batch.physical_offset.tolist()

    plugin = WatchingPlugin()
    config = {"commitlog": {"file_size": 1 << 16, "flush": "sync"}}
    with open_with(tmp_path, plugin, config=config) as store:
        for n in range(20):
            store.put(reput.Message("T", b"%d" % n))
        store.flush()
        assert store.wait_dispatched(10)
        assert [state.state for state in store.plugins()] == ["running"]
    assert len(plugin.seen) == 20


def test_damage_in_the_middle_of_the_log_costs_what_it_hit_and_not_what_follows(tmp_path, caplog):
    config = {"commitlog": {"file_size": 1 << 16}}
    with open_with(tmp_path, config=config) as store:
        receipts = [store.put(reput.Message("T", b"%d" % n * 20)) for n in range(50)]
    file = next((tmp_path / "commitlog").iterdir())
    data = bytearray(file.read_bytes())
    data[receipts[20].physical_offset + 4] ^= 0xFF
    file.write_bytes(data)

    plugin = CounterPlugin()
    with caplog.at_level(logging.CRITICAL, "reput.dispatch"):
        with open_with(tmp_path, plugin, config=config) as store:
            assert store.wait_dispatched(10)

    assert plugin.seen == [r.physical_offset for n, r in enumerate(receipts) if n != 20]


def test_a_lowered_progress_is_on_disk_before_anything_is_dispatched_again(tmp_path):
    class LosingPlugin(CounterPlugin):
        name = "losing"
        loses: ClassVar[bool] = False

        @reput.hookimpl
        def reput_recover(self, progress):
            self.promised = progress
            return 0 if self.loses else progress

        @reput.hookimpl
        def reput_dispatch(self, batch):
            if self.loses:
                raise RuntimeError("dies on the way")

    with open_with(tmp_path, LosingPlugin()) as store:
        for n in range(20):
            store.put(reput.Message("T", b"%d" % n))
    losing = LosingPlugin()
    losing.loses = True
    with open_with(tmp_path, losing) as store:
        assert store.wait_dispatched(10)
    after = LosingPlugin()
    with open_with(tmp_path, after):
        pass

    assert (losing.promised > 0, after.promised) == (True, 0)
