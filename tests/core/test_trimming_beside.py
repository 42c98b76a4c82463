"""Removing old files while plugins come and go: both end well, whoever is first."""

from __future__ import annotations

import threading

import pytest
from openstores import state_of
from trimmedstores import SIZE, fill, keep, notes, open_with

import reput
from reput_testing.crashes.storeinternals import store_internals

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.shows("calls-beside")]

CHANGES = {
    "remove": lambda store: store.remove_plugin("second"),
    "suspend": lambda store: store.suspend_plugin("second"),
    "add": lambda store: store.add_plugin(notes("third")),
    "remove and add": lambda store: (
        store.remove_plugin("second"),
        store.add_plugin(notes("second")),
    ),
}
QUESTIONS = {
    "plugins": lambda store: store.plugins(),
    "report": lambda store: store.report(),
    "trim": lambda store: keep(store, 1, dry_run=True),
}


class Beside:
    """Has something done on another thread, once, when it is called; waits until it is done."""

    def __init__(self, change):
        self.change = change
        self.store = None
        self.errors = []

    def __call__(self):
        store, self.store = self.store, None
        if store is not None:
            thread = threading.Thread(target=self._run, args=(store,))
            thread.start()
            thread.join(10)

    def _run(self, store):
        try:
            self.change(store)
        except BaseException as error:
            self.errors.append(error)


@pytest.mark.parametrize("hook", ["reput_hold", "reput_trim"])
@pytest.mark.parametrize("change", sorted(CHANGES))
def test_plugins_come_and_go_while_files_are_removed(tmp_path, hook, change):
    beside = Beside(CHANGES[change])

    def answer(self):
        beside()

    def answer_trim(self, min_physical_offset):
        beside()

    asked = {hook: answer if hook == "reput_hold" else answer_trim}
    first, second = notes("first", **asked), notes("second")
    with open_with(tmp_path, first, second, threads=True) as store:
        fill(store, 4)
        beside.store = store

        keep(store, 1)
        if hook == "reput_trim" and beside.store is not None:
            keep(store, 1)

        assert beside.store is None
        assert beside.errors == []
        assert state_of(store, "first").last_error is None
        if change == "suspend":
            store.resume_plugin("second")
        store.wait_dispatched(10)
        store.flush()
        keep(store, 1)
        assert store.log.min_physical_offset == 3 * SIZE


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_questions_are_answered_while_a_plugin_goes(tmp_path, question):
    answers = []
    with open_with(tmp_path, notes("first"), notes("second")) as store:
        fill(store, 2)
        loop = store_internals(store).loop
        use = loop.use
        # Between the moment at which it is driven no more and that at which all have heard so.
        loop.use = lambda plugins: (answers.append(QUESTIONS[question](store)), use(plugins))

        store.remove_plugin("second")

        assert len(answers) == 1
        assert [state.name for state in store.plugins()] == ["first"]
        assert isinstance(store.put(reput.Message("T", b"on")), reput.Receipt)
