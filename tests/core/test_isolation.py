"""The hostile zoo: whatever a plugin does wrong, the store, the others and closing are unharmed."""

from __future__ import annotations

import contextlib
import errno
import os
import threading

import numpy as np
import pytest
from openstores import is_written, only_hangs, plugin, put, state_of, until

import reput
from reput.dispatch.pluginopener import PluginOpener
from reput.errors import PluginError, PluginFlushError, ReadOnlyStoreError, StoreLockedError
from reput.plugin.readresults import QueueInfo
from reput_testing.crashes.storeinternals import store_internals

QUICK = {
    "commitlog": {"file_size": 65_536},
    "dispatch": {"retry_count": 2},
}
HANGS = {"stall_ms": 100}
"""For tests in which a plugin does not return, and `only_hangs` names it."""
EVERYTHING = [
    ValueError("broken"),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    MemoryError("no memory"),
    RecursionError("too deep"),
    StopIteration(),
    OSError(5, "Input/output error"),
]

pytestmark = [
    pytest.mark.usefixtures("quiet"),
    pytest.mark.sizes(
        commitlog={"plugin_flush_interval_ms": 10},
        dispatch={"retry_pause_ms": 1, "close_timeout_ms": 2000},
    ),
    pytest.mark.shows("plugin-fault"),
]


class Witness(reput.Plugin):
    """Sees every message exactly once, or the test fails."""

    def __init__(self, config=None):
        super().__init__(config)
        self.seen = []

    @reput.hookimpl
    def reput_recover(self, progress):
        return 0 if not self.seen else progress

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.seen += batch.physical_offset.tolist()


def open_with(path, *plugins, rules=None, **options):
    config = {**QUICK, "dispatch": {**QUICK["dispatch"], **(rules or {})}}
    return reput.open(path, plugins=plugins, config=config, **options)


# --------------------------------------------------------------------------- raising


@pytest.mark.parametrize("error", EVERYTHING, ids=lambda error: type(error).__name__)
def test_a_plugin_that_raises_is_tried_again_and_then_suspended(tmp_path, error):
    calls = []

    def fail(self, batch):
        calls.append(batch.start_offset)
        raise error

    witness = Witness()
    with open_with(tmp_path, plugin("bad", reput_dispatch=fail), witness) as store:
        offsets = put(store, 50)
        assert store.wait_dispatched(10)
        until(lambda: state_of(store, "bad").state == "suspended")
        state = state_of(store, "bad")

    assert witness.seen == offsets
    assert len(calls) > 3  # the batch, and then its parts, to find the message
    assert set(calls) == {0}
    assert state.last_error.startswith("message T/0@0: ")
    assert type(error).__name__ in state.last_error
    assert (state.dispatched_to, state.lag_count, state.lag_is_exact) == (0, 50, True)


def test_a_failure_that_passes_leaves_no_trace(tmp_path):
    class Flaky(Witness):
        failures = 2

        @reput.hookimpl
        def reput_dispatch(self, batch):
            if self.failures:
                self.failures -= 1
                raise ValueError("not now")
            self.seen += batch.physical_offset.tolist()

    flaky = Flaky()
    with open_with(tmp_path, flaky) as store:
        offsets = put(store, 20)
        assert store.wait_dispatched(10)
        state = state_of(store, "flaky")

    assert flaky.seen == offsets
    assert (state.state, state.last_error, state.lag_count) == ("running", None, 0)
    assert state.message_count == 20


@pytest.mark.sizes(
    dispatch={"retry_pause_ms": 100, "retry_max_pause_ms": 500},
)
def test_pauses_between_retries_double_up_to_the_longest(tmp_path):
    def fail(self, batch):
        raise ValueError("broken")

    rules = {"retry_count": 5}
    bad = plugin("bad", reput_dispatch=fail)
    pauses, now = [], 1_000.0
    with open_with(tmp_path, bad, rules=rules, threads=False) as store:
        loop = store_internals(store).loop
        loop.board.now = lambda: now
        put(store, 1)
        each = loop.board.runners["bad"]
        while loop.shared.step() and each.phase == "retrying":
            pauses.append(round(each.retries.at - now, 6))
            assert not loop.shared.step()  # not before its time
            now = each.retries.at

    assert pauses == [0.1, 0.2, 0.4, 0.5, 0.5]
    assert each.phase == "suspended"


@pytest.mark.parametrize("hook", ["reput_enrich", "reput_arrive", "reput_flush"])
@pytest.mark.parametrize("error", EVERYTHING[:4], ids=lambda error: type(error).__name__)
def test_what_other_hooks_raise_stops_that_plugin_only(tmp_path, hook, error):
    def raising(self, batch=None):
        raise error

    hooks = {
        "reput_dispatch": lambda self, batch: None,
        "reput_enrich": lambda self, batch: raising(self),
        "reput_arrive": lambda self, batch: raising(self),
        "reput_flush": lambda self: raising(self),
    }
    kept = {"reput_dispatch": hooks["reput_dispatch"], hook: hooks[hook]}
    witness = Witness()
    patient = {"stall_ms": 60_000}  # nothing hangs here but a busy machine
    with open_with(tmp_path, plugin("bad", **kept), witness, rules=patient) as store:
        offsets = put(store, 10)
        assert store.wait_dispatched(10)
        store.flush()
        until(lambda: state_of(store, "bad").state == "suspended")
        offsets += put(store, 10, 10)
        assert store.wait_dispatched(10)
        assert witness.seen == offsets


@pytest.mark.parametrize("hook", ["reput_open", "reput_recover"])
@pytest.mark.parametrize("mode", ["w", "r"])
@pytest.mark.parametrize("error", EVERYTHING[:3], ids=lambda error: type(error).__name__)
def test_a_plugin_that_cannot_be_opened_keeps_nobody_from_opening_the_store(
    tmp_path, hook, mode, error
):
    def raising(self):
        raise error

    with open_with(tmp_path) as store:
        offsets = put(store, 5)
    hooks = {"reput_dispatch": lambda self, batch: None, hook: raising}
    bad, witness = plugin("bad", **hooks), Witness()

    with open_with(tmp_path, bad, witness, mode=mode) as store:
        state = state_of(store, "bad")
        assert state.state == "suspended"
        assert type(error).__name__ in state.last_error
        assert store.get(offsets[-1]).body == b"4"
        if mode == "w":
            assert store.wait_dispatched(10)
            assert witness.seen == offsets


def test_what_a_plugin_raises_while_closing_does_not_keep_the_store_open(tmp_path):
    def raising(self):
        raise SystemExit(9)

    store = open_with(tmp_path, plugin("bad", reput_close=raising))
    put(store, 3)

    store.close()

    with open_with(tmp_path, forget={"bad"}) as store:
        assert store.clean


# --------------------------------------------------------------------------- policies


def _fails_on(*bodies):
    def dispatch(self, batch):
        for row in range(len(batch)):
            if batch.message(row).body in bodies:
                raise ValueError(f"cannot take {batch.message(row).body!r}")
        self.__dict__.setdefault("seen", []).extend(batch.physical_offset.tolist())

    return plugin("picky", reput_dispatch=dispatch)


def test_with_skip_only_the_messages_that_fail_are_left_out_and_noted(tmp_path):
    picky = _fails_on(b"17", b"18", b"99")
    rules = {"on_error": {"picky": "skip"}}
    with open_with(tmp_path, picky, rules=rules) as store:
        receipt = store.put_many([reput.Message("T", b"%d" % n) for n in range(100)])
        assert store.wait_dispatched(10)
        state = state_of(store, "picky")
        letters = store.dead_letters("picky")

    offsets = receipt.physical_offsets.tolist()
    assert picky.seen == [o for n, o in enumerate(offsets) if n not in (17, 18, 99)]
    assert (state.state, state.skipped_count, state.policy) == ("running", 3, "skip")
    assert [letter.physical_offset for letter in letters] == [offsets[n] for n in (17, 18, 99)]
    assert [letter.queue_offset for letter in letters] == [17, 18, 99]
    assert letters[0].error == "ValueError: cannot take b'17'"
    assert letters[0].topic == "T"

    with open_with(tmp_path, picky, rules=rules, mode="r") as store:
        assert store.dead_letters("picky") == letters
        assert state_of(store, "picky").skipped_count == 3


def test_the_message_that_a_plugin_fails_on_is_named_and_those_before_it_are_taken(tmp_path):
    picky = _fails_on(b"17", b"30")
    with open_with(tmp_path, picky) as store:
        receipt = store.put_many([reput.Message("T", b"%d" % n, n % 2) for n in range(50)])
        assert store.wait_dispatched(10)
        until(lambda: state_of(store, "picky").state == "suspended")
        state = state_of(store, "picky")

    assert picky.seen == receipt.physical_offsets.tolist()[:17]
    assert state.last_error == "message T/1@8: ValueError: cannot take b'17'"
    assert state.dispatched_to == receipt.physical_offsets[17]


@pytest.mark.sizes(
    dispatch={"skip_limit": 7},
)
def test_skipping_has_an_end(tmp_path):
    def fail(self, batch):
        raise ValueError("takes nothing")

    rules = {"on_error": "skip", "retry_count": 0}
    with open_with(tmp_path, plugin("bad", reput_dispatch=fail), rules=rules) as store:
        store.put_many([reput.Message("T", b"%d" % n) for n in range(50)])
        assert store.wait_dispatched(10)
        until(lambda: state_of(store, "bad").state == "suspended")
        assert len(store.dead_letters("bad")) == 7
        assert state_of(store, "bad").lag_count == 43


def test_a_dead_letter_that_a_crash_cut_short_is_passed_over(tmp_path):
    picky = _fails_on(b"1")
    rules = {"on_error": "skip", "retry_count": 0}
    with open_with(tmp_path, picky, rules=rules) as store:
        put(store, 3)
        assert store.wait_dispatched(10)
    path = tmp_path / "reput" / "dead-letters" / "picky.jsonl"
    path.write_bytes(path.read_bytes() + b'{"physical_off')

    with open_with(tmp_path, _fails_on(b"4"), rules=rules) as store:
        put(store, 3, 3)
        assert store.wait_dispatched(10)
        assert [letter.queue_offset for letter in store.dead_letters("picky")] == [1, 4]


def test_with_halt_nobody_gets_ahead_and_puts_go_on(tmp_path):
    class Strict(Witness):
        broken = True

        @reput.hookimpl
        def reput_dispatch(self, batch):
            if self.broken:
                raise ValueError("must not be left behind")
            self.seen += batch.physical_offset.tolist()

    strict, witness = Strict(), Witness()
    witness.runs_after = frozenset({"strict"})
    rules = {"on_error": {"strict": "halt"}}
    with open_with(tmp_path, strict, witness, rules=rules) as store:
        offsets = put(store, 1)
        until(lambda: state_of(store, "strict").state == "halted")
        ahead = len(witness.seen)
        offsets += put(store, 10, 1)
        assert state_of(store, "witness").state == "halted"
        assert "'strict'" in state_of(store, "witness").last_error
        assert len(witness.seen) == ahead <= 1

        strict.broken = False
        store.resume_plugin("strict")
        assert store.wait_dispatched(10)

        assert strict.seen == offsets
        assert witness.seen == offsets


def test_a_plugin_waits_while_one_that_it_requires_does_not_run(tmp_path):
    class Needy(Witness):
        requires = frozenset({"basis"})

    basis, needy = plugin("basis", reput_dispatch=lambda self, batch: None), Needy()
    with open_with(tmp_path, basis, needy) as store:
        offsets = put(store, 5)
        assert store.wait_dispatched(10)
        store.suspend_plugin("basis")
        more = put(store, 5, 5)
        assert store.wait_dispatched(10)
        state = state_of(store, "needy")
        assert (state.state, state.lag_count) == ("waiting", 5)
        assert "basis" in state.last_error

        store.resume_plugin("basis")
        assert store.wait_dispatched(10)
        assert needy.seen == offsets + more


# --------------------------------------------------------------------------- hanging


class Gate:
    """A hook that hangs until it is let go; the test can wait until it is inside."""

    def __init__(self):
        self.inside = threading.Event()
        self.open = threading.Event()

    def __call__(self, *_, **__):
        self.inside.set()
        self.open.wait(60)


@pytest.mark.parametrize("hook", ["reput_dispatch", "reput_enrich", "reput_arrive", "reput_flush"])
def test_a_plugin_that_hangs_holds_up_nobody_and_goes_on_when_it_returns(
    tmp_path, hook, monkeypatch
):
    gate, witness, hanging = Gate(), Witness(), only_hangs(monkeypatch, ("hung", hook))
    hooks = {
        "reput_dispatch": lambda self, batch: None,
        "reput_flush": lambda self: None,
        "reput_enrich": lambda self, batch: None,
        "reput_arrive": lambda self, batch: None,
    }
    takes_batch = hook != "reput_flush"
    hooks[hook] = (lambda self, batch: gate()) if takes_batch else (lambda self: gate())
    with open_with(tmp_path, plugin("hung", **hooks), witness, rules=HANGS) as store:
        offsets = put(store, 10)
        assert gate.inside.wait(10)
        until(lambda: state_of(store, "hung").state == "stalled")
        assert f"{hook} has not returned" in state_of(store, "hung").last_error
        offsets += put(store, 10, 10)
        assert store.wait_dispatched(10)
        assert witness.seen == offsets
        if hook == "reput_flush":
            with pytest.raises(PluginFlushError, match=r"'hung': .*reput_flush has not returned"):
                store.flush()
        else:
            with contextlib.suppress(PluginFlushError):  # where some of it was not flushed before
                store.flush()

        hanging.clear()
        gate.open.set()

        until(lambda: state_of(store, "hung").state == "running")
        assert store.wait_dispatched(10)
        assert state_of(store, "hung").lag_size == 0
        assert witness.seen == offsets


def test_a_store_closes_while_a_plugin_hangs_as_it_is_closed(tmp_path, monkeypatch):
    only_hangs(monkeypatch, ("hung", "reput_close"))
    gate, witness = Gate(), Witness()
    hooks = {"reput_dispatch": lambda self, batch: None, "reput_close": lambda self: gate()}
    store = open_with(tmp_path, plugin("hung", **hooks), witness, rules=HANGS)
    offsets = put(store, 10)

    store.close()

    with pytest.raises(StoreLockedError, match="'hung' has not returned from reput_close;"):
        open_with(tmp_path, Witness(), forget={"hung"})
    gate.open.set()
    until(lambda: not is_written(tmp_path))
    assert witness.seen == offsets
    again = Witness()
    with open_with(tmp_path, again, forget={"hung"}) as store:
        assert store.wait_dispatched(10)
        assert again.seen == offsets


def test_a_plugin_that_hangs_while_it_is_opened_does_not_keep_the_store_from_opening(
    tmp_path, monkeypatch
):
    gate, witness, call = Gate(), Witness(), PluginOpener._call
    only_hangs(monkeypatch, ("hung", "reput_open"))

    def called(opener, name, *rest):
        seconds = 0.1 if name == "hung" else 60.0
        monkeypatch.setattr("reput.dispatch.pluginopener.OPEN_SECONDS", seconds)
        return call(opener, name, *rest)

    monkeypatch.setattr(PluginOpener, "_call", called)
    hung = plugin("hung", reput_recover=lambda self: gate())
    with open_with(tmp_path, hung, witness, rules=HANGS) as store:
        assert "has not returned" in state_of(store, "hung").last_error
        offsets = put(store, 5)
        assert store.wait_dispatched(10)
        with pytest.raises(PluginError, match="not returned"):
            store.resume_plugin("hung")
        gate.open.set()

    assert witness.seen == offsets


def test_a_plugin_that_sleeps_in_every_batch_gets_a_group_of_its_own(tmp_path, monkeypatch):
    only_hangs(monkeypatch)
    pause = threading.Event()
    slow = plugin("slow", reput_dispatch=lambda self, batch: pause.wait(0.01))
    witness = Witness()
    with open_with(tmp_path, slow, witness, rules={"stall_ms": 400}) as store:
        loop = store_internals(store).loop
        offsets = []

        def is_set_aside():
            offsets.extend(put(store, 1, len(offsets)))
            return len(loop.own) == 1

        until(is_set_aside)
        offsets += put(store, 10)
        assert store.wait_dispatched(20)
        assert witness.seen == offsets
        assert state_of(store, "slow").lag_size == 0


# --------------------------------------------------------------------------- columns of the stopped


class Columns(reput.Plugin):
    """Adds a column, and may fail in any of its hooks."""

    name = "columns"
    priority = 0

    def __init__(self):
        super().__init__(None)
        self.failing = {}
        self.open_count = self.enrich_count = 0

    def fail(self, hook):
        if hook in self.failing:
            raise self.failing[hook]

    @reput.hookimpl
    def reput_open(self, context):
        self.open_count += 1
        self.fail("reput_open")

    @reput.hookimpl
    def reput_enrich(self, batch):
        self.enrich_count += 1
        self.fail("reput_enrich")
        return {"mine": batch.physical_offset + 1}

    @reput.hookimpl
    def reput_dispatch(self, batch):
        self.fail("reput_dispatch")


class Reader(Witness):
    """Keeps the column of `Columns` of each message; None without it."""

    name = "reader"

    def __init__(self):
        super().__init__(None)
        self.columns = []

    @reput.hookimpl
    def reput_dispatch(self, batch):
        found = [None] * len(batch)
        with contextlib.suppress(KeyError):
            found = batch.column("mine").tolist()
        self.seen += batch.physical_offset.tolist()
        self.columns += found

    @property
    def whole(self):
        return [offset + 1 for offset in self.seen]


def test_a_plugin_that_is_suspended_by_its_user_or_by_its_failure_still_adds_its_columns(tmp_path):
    adds, reader = Columns(), Reader()
    with open_with(tmp_path, adds, reader, rules={"retry_count": 0}) as store:
        offsets = put(store, 2)
        assert store.wait_dispatched(10)
        store.suspend_plugin("columns")
        offsets += put(store, 2, 2)
        assert store.wait_dispatched(10)
        store.resume_plugin("columns")
        adds.failing["reput_dispatch"] = ValueError("broken")
        offsets += put(store, 2, 4)
        until(lambda: state_of(store, "columns").state == "suspended")
        offsets += put(store, 2, 6)
        assert store.wait_dispatched(10)

    assert (reader.seen, reader.columns) == (offsets, reader.whole)


def test_a_plugin_that_failed_to_add_its_columns_is_asked_again_when_it_is_resumed(tmp_path):
    adds, reader = Columns(), Reader()
    with open_with(tmp_path, adds, reader) as store:
        adds.failing["reput_enrich"] = ValueError("broken")
        put(store, 1)
        assert store.wait_dispatched(10)
        asked = adds.enrich_count
        put(store, 1, 1)
        assert store.wait_dispatched(10)
        assert adds.enrich_count == asked
        adds.failing.clear()
        store.resume_plugin("columns")
        put(store, 1, 2)
        assert store.wait_dispatched(10)

    assert reader.columns == [None, None, reader.whole[2]]


@pytest.mark.sizes(dispatch={"retry_max_pause_ms": 1})
def test_while_a_full_disk_keeps_a_plugin_from_opening_others_wait_for_its_columns(tmp_path):
    adds, reader = Columns(), Reader()
    adds.failing["reput_open"] = OSError(errno.ENOSPC, "no space")
    with open_with(tmp_path, adds, reader) as store:
        offsets = put(store, 3)
        assert not store.wait_dispatched(0.05)
        assert "'columns'" in state_of(store, "reader").last_error
        assert reader.seen == []
        adds.failing.clear()
        until(lambda: store.wait_dispatched(0.05))
        assert state_of(store, "reader").state == "running"

    assert (reader.seen, reader.columns) == (offsets, reader.whole)


def test_a_store_closed_while_others_wait_for_columns_goes_on_at_its_next_opening(tmp_path):
    adds, reader = Columns(), Reader()
    adds.failing["reput_open"] = OSError(errno.ENOSPC, "no space")
    with open_with(tmp_path, adds, reader) as store:
        offsets = put(store, 3)
    assert reader.seen == []
    adds, reader = Columns(), Reader()
    with open_with(tmp_path, adds, reader) as store:
        assert store.wait_dispatched(10)
        assert state_of(store, "reader").state == "running"

    assert (reader.seen, reader.columns) == (offsets, reader.whole)


@pytest.mark.sizes(dispatch={"retry_max_pause_ms": 1})
def test_an_opening_that_waits_for_queues_opens_the_plugin_whose_columns_they_wait_for(tmp_path):
    class Queues(Reader):
        @reput.hookimpl
        def reput_queue_offsets(self):
            return {}

    class Full(Columns):
        @reput.hookimpl
        def reput_open(self, context):
            self.open_count += 1
            if self.open_count < 4:
                raise OSError(errno.ENOSPC, "no space")

    adds = Columns()
    adds.failing["reput_open"] = OSError(errno.ENOSPC, "no space")
    with open_with(tmp_path, adds, Queues()) as store:
        offsets = put(store, 3)
    adds, reader = Full(), Queues()
    with open_with(tmp_path, adds, reader) as store:
        assert store.wait_dispatched(10)

    assert (reader.seen, reader.columns) == (offsets, reader.whole)


def test_others_wait_while_a_plugin_that_adds_columns_is_closed_and_opened(tmp_path):
    closed, goes_on = threading.Event(), threading.Event()

    class Slow(Columns):
        @reput.hookimpl
        def reput_close(self):
            closed.set()
            goes_on.wait(60)

    adds, reader = Slow(), Reader()
    with open_with(tmp_path, adds, reader) as store:
        store.suspend_plugin("columns")
        resuming = threading.Thread(target=store.resume_plugin, args=("columns",))
        resuming.start()
        assert closed.wait(60)
        offsets = put(store, 2)
        assert not store.wait_dispatched(0.05)
        goes_on.set()
        resuming.join()
        assert store.wait_dispatched(10)

    assert (reader.seen, reader.columns) == (offsets, reader.whole)


# --------------------------------------------------------------------------- forking, leaking


def test_a_plugin_that_leaks_descriptors_and_threads_harms_nobody(tmp_path):
    leaked, stop = [], threading.Event()

    def leak(self, batch):
        leaked.append(os.open(tmp_path, os.O_RDONLY))
        threading.Thread(target=stop.wait, args=(60,), daemon=True).start()

    witness = Witness()
    with open_with(tmp_path, plugin("leaky", reput_dispatch=leak), witness) as store:
        offsets = []
        for number in range(30):
            offsets += put(store, 1, number)
            assert store.wait_dispatched(10)
    stop.set()
    for descriptor in leaked:
        os.close(descriptor)

    assert len(leaked) == 30
    assert witness.seen == offsets


def test_a_plugin_that_writes_into_a_batch_gets_an_error_and_the_others_the_batch(tmp_path):
    def scribble(self, batch):
        for array in (batch.window, batch.start, batch.size, batch.physical_offset):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0
        batch.queue_id[:] = 7

    witness = Witness()
    with open_with(tmp_path, plugin("a", reput_dispatch=scribble), witness) as store:
        offsets = put(store, 10)
        assert store.wait_dispatched(10)
        assert witness.seen == offsets
        until(lambda: state_of(store, "a").state == "suspended")
        assert "read-only" in state_of(store, "a").last_error


# --------------------------------------------------------------------------- nonsense


@pytest.mark.parametrize("answer", ["0", 1.5, b"", [], True, object()])
def test_an_offset_that_is_none_suspends_the_plugin(tmp_path, answer):
    odd = plugin("odd", reput_recover=lambda self: answer, reput_dispatch=lambda self, batch: None)
    with open_with(tmp_path, odd) as store:
        put(store, 3)
        assert "reput_recover returned" in state_of(store, "odd").last_error


@pytest.mark.parametrize("answer", [-1, -(2**70), 2**70, None])
def test_an_offset_that_the_log_does_not_have_is_put_right(tmp_path, answer):
    seen = []
    odd = plugin(
        "odd",
        reput_recover=lambda self: answer,
        reput_dispatch=lambda self, batch: seen.extend(batch.physical_offset.tolist()),
    )
    with open_with(tmp_path, odd) as store:
        offsets = put(store, 3)
        assert store.wait_dispatched(10)
        assert seen == offsets


@pytest.mark.parametrize(
    "answer",
    [
        7,
        "columns",
        [1],
        {"mine": 3},
        {"mine": np.zeros(10**6)},
        {"tags_code": np.array(["a"])},
        {"mine": np.array([object()])},
        {"physical_offset": np.zeros(1)},
    ],
    ids=range(8),
)
def test_columns_that_are_none_suspend_the_plugin(tmp_path, answer):
    witness = Witness()
    with open_with(tmp_path, plugin("odd", reput_enrich=lambda self: answer), witness) as store:
        offsets = put(store, 1)
        assert store.wait_dispatched(10)
        assert witness.seen == offsets
        assert state_of(store, "odd").state == "suspended"


@pytest.mark.parametrize(
    "answer",
    [
        *(3, [("T", 0)], {"T": 1}, {("T", 0): "1"}, {("T", 0): -5}),
        *(ValueError("forgotten"), SystemExit("forgotten")),
    ],
)
def test_queue_offsets_that_are_none_or_cannot_be_told_are_counted_instead(tmp_path, answer):
    def answering(self):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    with open_with(tmp_path) as store:
        put(store, 4)

    with open_with(tmp_path, plugin("odd", reput_queue_offsets=answering)) as store:
        assert store.put(reput.Message("T", b"")).queue_offset == 4


def test_answers_to_readers_that_are_none_are_errors_that_name_the_plugin(tmp_path):
    odd = plugin(
        "odd",
        reput_read=lambda self: "no result",
        reput_offset_by_time=lambda self: "yesterday",
        reput_queues=lambda self: ["T"],
    )
    with open_with(tmp_path, odd) as store:
        with pytest.raises(PluginError, match="'odd': reput_read returned 'no result'"):
            store.read("T", 0, 0)
        with pytest.raises(PluginError, match="reput_offset_by_time returned 'yesterday'"):
            store.offset_by_time("T", 0, 0)
        with pytest.raises(PluginError, match=f"a {QueueInfo.__name__} is expected"):
            store.queues()


def test_a_put_hook_that_exits_is_a_put_that_fails(tmp_path):
    def leave(self, messages):
        raise SystemExit(1)

    with open_with(tmp_path, plugin("odd", reput_put=leave)) as store:
        with pytest.raises(PluginError, match="SystemExit"):
            store.put(reput.Message("T", b"x"))
        assert store.log.max_physical_offset == 0


# --------------------------------------------------------------------------- breaking later


@pytest.mark.parametrize("nth", [1, 2, 3, 7])
def test_a_plugin_that_breaks_on_the_nth_batch_keeps_its_place(tmp_path, nth):
    class Brittle(Witness):
        batches = 0

        @reput.hookimpl
        def reput_dispatch(self, batch):
            self.batches += 1
            if self.batches == nth:
                raise SystemExit(self.batches)
            self.seen += batch.physical_offset.tolist()

    brittle, witness = Brittle(), Witness()
    with open_with(tmp_path, brittle, witness, rules={"retry_count": 0}) as store:
        offsets = []
        for number in range(8):
            offsets += put(store, 1, number)
            assert store.wait_dispatched(10)
        until(lambda: state_of(store, "brittle").state == "suspended")
        assert brittle.seen == offsets[: nth - 1]
        assert state_of(store, "brittle").dispatched_to == offsets[nth - 1]

        store.resume_plugin("brittle")
        assert store.wait_dispatched(10)

        assert brittle.seen[-1] == offsets[-1]
        assert set(brittle.seen) == set(offsets)
        assert witness.seen == offsets


def test_reading_only_changes_no_plugin(tmp_path):
    with open_with(tmp_path, Witness()) as store:
        put(store, 2)

    with open_with(tmp_path, mode="r") as store:
        for call in (store.suspend_plugin, store.resume_plugin, store.remove_plugin):
            with pytest.raises(ReadOnlyStoreError):
                call("witness")
        with pytest.raises(ReadOnlyStoreError):
            store.add_plugin(Witness())
