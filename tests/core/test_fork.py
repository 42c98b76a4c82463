"""The child of a process that forked cannot use its parent's store, nor harm it."""

from __future__ import annotations

import atexit
import functools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback

import pytest

import reput
from reput.errors import ForkedStoreError, StoreClosedError, StoreLockedError
from reput.plugin.base import Plugin
from reput_testing.crashes.storeinternals import store_internals

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
    pytest.mark.shows("fork"),
]

USES = {
    "put": lambda store: store.put(reput.Message("T", b"child")),
    "put_many": lambda store: store.put_many([reput.Message("T", b"child")]),
    "plugin": lambda store: store.plugin("p"),
    "flush": lambda store: store.flush(),
    "get": lambda store: store.get(0),
    "scan": lambda store: list(store.scan()),
    "read": lambda store: store.read("T", 0, 0),
    "queues": lambda store: store.queues(),
    "losses": lambda store: store.losses(),
    "plugins": lambda store: store.plugins(),
    "wait_dispatched": lambda store: store.wait_dispatched(),
    "work": lambda store: store.work(),
    "trim_log": lambda store: store.trim_log(0),
    "add_plugin": lambda store: store.add_plugin("consumequeue"),
    "suspend_plugin": lambda store: store.suspend_plugin("p"),
    "enter": lambda store: store.__enter__(),
    "log": lambda store: store.log,
    "root": lambda store: store.root,
    "unheard_of": lambda store: store.unheard_of(),
}


CONFIG = {"commitlog": {"file_size": 64 << 10}}


def in_child(work):
    """Run ``work`` in a forked child; what it returned, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        try:
            os.write(writer, str(work()).encode())
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        text = answer.read().decode()
    assert os.waitpid(child, 0)[1] == 0, text
    return text


def errors_of(works):
    """What each of ``works`` raises, in one child: type and text by name."""

    def tried():
        texts = {}
        for name, work in works.items():
            texts[name] = "no error"
            try:
                work()
            except Exception as error:
                texts[name] = f"{type(error).__name__}: {error}"
        return json.dumps(texts)

    return json.loads(in_child(tried))


def error_of(work):
    return errors_of({"": work})[""]


def bytes_below(root):
    return {
        path.relative_to(root): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name != "next-file"
    }


def bodies_of(store):
    return [batch.message(row).body for batch in store.scan() for row in range(len(batch))]


@pytest.mark.parametrize("threads", [True, False], ids=["threads", "no-threads"])
@pytest.mark.parametrize("mode", ["w", "r"])
def test_whatever_a_child_asks_of_the_store_is_one_clear_error_and_no_byte_is_written(
    tmp_path, mode, threads
):
    with reput.open(tmp_path, plugins=[], config=CONFIG) as first:
        first.put(reput.Message("T", b"parent"))
    with reput.open(tmp_path, mode, threads=threads) as store:
        if mode == "w":
            store.flush()  # else the parent notes its first flush a second later
        before = bytes_below(tmp_path)

        errors = errors_of({name: functools.partial(use, store) for name, use in USES.items()})

        assert bytes_below(tmp_path) == before
        assert bodies_of(store) == [b"parent"]
    parent = f"process {os.getpid()} opened the store"
    assert errors.keys() == USES.keys()
    for name, text in errors.items():
        assert text.startswith("ForkedStoreError: "), (name, text)
        assert str(tmp_path) in text
        assert parent in text


def test_the_error_counts_as_that_of_a_closed_store_and_says_what_to_do():
    error = ForkedStoreError("/s", 17, 18)

    assert isinstance(error, StoreClosedError)
    assert '(mode="r" while the other one writes), or start the child with "spawn"' in str(error)


def test_receipts_and_bound_methods_from_before_the_fork_are_refused_too(tmp_path):
    with reput.open(tmp_path, plugins=[], config=CONFIG) as store:
        receipt, put, scan = store.put(reput.Message("T", b"x")), store.put, store.log.scan

        found = [
            error_of(receipt.wait),
            error_of(lambda: put(reput.Message("T", b"y"))),
            error_of(lambda: list(scan())),
        ]

        assert bodies_of(store) == [b"x"]
    assert all(text.startswith("ForkedStoreError: ") for text in found), found


def test_a_plugins_own_files_cannot_be_changed_in_a_child(tmp_path):
    class Keeper(Plugin):
        name = "keeper"

        @reput.hookimpl
        def reput_open(self, context):
            self.context = context

    keeper = Keeper()
    with reput.open(tmp_path, plugins=[keeper], config=CONFIG):
        directory = keeper.context.directory("keeper")
        keeper.context.disk.make_directory(directory)

        found = error_of(lambda: keeper.context.disk.replace(f"{directory}/file", b"x"))

        assert "its forked child" in found
        keeper.context.disk.replace(f"{directory}/other", b"x")
    assert [path.name for path in (tmp_path / "keeper").iterdir()] == ["other"]


def test_a_child_refuses_at_once_though_another_thread_holds_every_lock(tmp_path):
    with reput.open(tmp_path, plugins=[], config=CONFIG) as store:
        held, done = threading.Event(), threading.Event()

        def hold():
            with store.log._lock, store.log.files._lock, store_internals(store).loop.board.lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()

        found = [error_of(lambda: store.put(reput.Message("T", b"y"))), error_of(store.flush)]
        closed = in_child(store.close)

        done.set()
        thread.join()
    assert all(text.startswith("ForkedStoreError: ") for text in found), found
    assert closed == "None"


@pytest.mark.parametrize("way", ["close", "with", "atexit", "multiprocessing"])
def test_a_child_that_leaves_closes_nothing_of_its_parents(tmp_path, capfd, way):
    def leave():
        if way == "with":
            store.__exit__(None, None, None)
        store.close()
        return store.closed

    with reput.open(tmp_path, plugins=[], config=CONFIG) as store:
        store.put(reput.Message("T", b"before"))
        if way == "atexit":
            atexit.register(store.close)
            try:
                assert in_child(atexit._run_exitfuncs) == "None"
                assert "ForkedStoreError" not in capfd.readouterr().err
            finally:
                atexit.unregister(store.close)
        elif way == "multiprocessing":
            child = multiprocessing.get_context("fork").Process(target=leave)
            child.start()
            child.join()
            assert child.exitcode == 0
        else:
            assert in_child(leave) == "True"

        store.put(reput.Message("T", b"after"))
        store.flush()

        assert (tmp_path / "abort").exists()
        assert error_of(lambda: reput.open(tmp_path)).startswith("StoreLockedError: ")
    with reput.open(tmp_path, "r") as again:
        assert again.clean
        assert bodies_of(again) == [b"before", b"after"]


def test_a_child_may_open_the_store_for_reading_and_another_one_for_writing(tmp_path):
    def read():
        with reput.open(tmp_path / "a", "r") as reader:
            return bodies_of(reader)

    def write():
        with reput.open(tmp_path / "b", plugins=[], config=CONFIG) as other:
            other.put(reput.Message("T", b"b"))
            return bodies_of(other)

    with reput.open(tmp_path / "a", plugins=[], config=CONFIG) as store:
        store.put(reput.Message("T", b"a"))

        assert in_child(read) == "[b'a']"
        assert in_child(write) == "[b'b']"
        with pytest.raises(StoreLockedError):
            reput.open(tmp_path / "a")


@pytest.mark.costly
def test_a_child_does_not_hold_the_lock_of_a_parent_that_died(tmp_path):
    program = """
        import os, sys
        import reput

        store = reput.open(sys.argv[1], plugins=[])
        store.put(reput.Message("T", b"x"))
        if os.fork() == 0:
            print("forked", flush=True)
            sys.stdin.read()
            os._exit(0)
        os.kill(os.getpid(), 9)
    """
    parent = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout.readline() == "forked\n"
        assert parent.wait() == -signal.SIGKILL

        with reput.open(tmp_path) as store:
            assert bodies_of(store) == [b"x"]

        parent.stdin.close()


@pytest.mark.parametrize("hook", ["reput_put", "reput_flush", "reput_work", "reput_dispatch"])
def test_a_plugin_that_forks_does_not_go_on_in_the_child(tmp_path, hook):
    codes, came_back = [], []
    parent = os.getpid()

    def fork(where):
        if codes or where != hook:
            return
        child = os.fork()
        if child == 0:
            signal.alarm(20)
        else:
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    class Forker(Plugin):
        name = "forker"

        @reput.hookimpl
        def reput_put(self, messages):
            fork("reput_put")

        @reput.hookimpl
        def reput_dispatch(self, batch):
            fork("reput_dispatch")

        @reput.hookimpl
        def reput_flush(self):
            fork("reput_flush")

        @reput.hookimpl
        def reput_work(self, now):
            fork("reput_work")

    with reput.open(tmp_path, plugins=[Forker()], config=CONFIG) as store:
        try:
            store.put(reput.Message("T", b"x"))
            store.wait_dispatched(10)
            store.flush()
            store.close()
        except ForkedStoreError:
            came_back.append(os.getpid())
        if os.getpid() != parent:
            os._exit(90 + len(came_back))

    assert codes == [91 if hook == "reput_put" else 70]
    with reput.open(tmp_path, "r", plugins=[]) as again:
        assert bodies_of(again) == [b"x"]
