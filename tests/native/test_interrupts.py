"""Ctrl-C while a kernel calls Python, in the first call of a process and in any later one.

What a kernel needs of Python it loads when it is first called, so each place is tried in a process
that has called none: a fork of one that has only imported reput.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.shows("compiled")

INTERRUPT_EVERY_CALL = """
import os, sys, threading, traceback

import numpy as np
import reput
from reput.errors import CorruptFileError
from reput.log.writer.appender import Appender, rows_of_columns, rows_of_messages
from reput.log.writer.flushleader import FlushLeader
from reput.record import Decoder, Encoder, Message
from reput.record.text.javatext import java_string_hash_column
from reput.record.text.properties import property_places, texts_of
from reput.record.text.topicdictionary import topic_table
from reput.record.messageview import MessageView
from reput_consumequeue.unitruns import units_by_queue
from reput_index.batchkeys import keys_of_texts
from reput_index.files.hashchain import make_items

assert reput.engine.ENGINE.name == "native"
SET = dict(queue_id=3, tags="a", keys="k", properties={"p": "v"})
message = Message("T", b"x" * 50, **SET)
pair = np.array([0, 2, 4], np.int32), b"abcd"
columns = reput.Columns(topic="T", body=pair, tags=["a", None], queue_id=np.arange(2))
longs, ints, bytes_ = np.zeros(2, np.int64), np.zeros(2, np.int32), np.zeros(9, np.uint8)
# Written down, as an encoder would load what is to be loaded late.
record = bytes.fromhex(
    "00000061daa320a70cdc168300000000000000000000000000000000000000000000000000000000000000000000"
    "00017f00000100002a9f00000000000000017f00000100002a9f0000000000000000000000000000000178015400"
    "0461013102"
)
broken = record[:89] + b"\x7f" + record[90:]
turned = []
appender = Appender(Encoder(), 0, -1, None)


def flush():
    turned.append(1)
    turns.reached(9)


turns = FlushLeader(0)


def plain(work):
    yield work
    work()


def raises(work):
    try:
        work()
    except CorruptFileError:
        return
    raise AssertionError("no error")


OPERATIONS = {
    "rows_of_messages": lambda: plain(lambda: rows_of_messages([message], Encoder(), appender)),
    "rows_of_columns": lambda: plain(lambda: rows_of_columns(columns, Encoder(), appender)),
    "cut_window": lambda: plain(lambda: Decoder().decode(bytes_, 0)),
    "topic_table": lambda: plain(lambda: topic_table().encode(bytes_, longs, longs)),
    "property_places": lambda: plain(lambda: property_places(bytes_, longs, longs).find(b"TAGS")),
    "texts": lambda: plain(lambda: texts_of(bytes_, longs, longs)),
    "hash": lambda: plain(lambda: java_string_hash_column(bytes_, longs, longs)),
    "units": lambda: plain(lambda: units_by_queue(ints, ints, ints, *[longs] * 4)),
    "keys": lambda: plain(lambda: keys_of_texts(bytes_, *[longs] * 4, ints, ints, longs, longs)),
    "items": lambda: plain(lambda: make_items(np.zeros(9, np.int32), ints, longs, longs, 1, 0)),
    "view": lambda: plain(lambda: MessageView(bytes(record)).properties),
    "broken view": lambda: plain(lambda: raises(lambda: MessageView(broken).places())),
    "no view": lambda: plain(lambda: raises(lambda: MessageView(b"x" * 100))),
    "wait": lambda: plain(lambda: turns.wait(5, 1.0, flush)),
    "sleep": lambda: plain(lambda: turns.wait(5, 0.06, flush)),
}


def interrupt_at(number):
    count = 0

    def call(frame, event, argument):
        nonlocal count
        count += 1
        if count == number:
            sys.settrace(None)
            raise KeyboardInterrupt

    return call


def outcome_of(operation, number):
    steps = OPERATIONS[operation]()
    work = next(steps)
    if operation == "sleep":  # while another thread has the turn
        has_it, goes_on = threading.Event(), threading.Event()
        other = lambda: turns.wait(1, None, lambda: (has_it.set(), goes_on.wait(), flush()))
        threading.Thread(target=other, daemon=True).start()
        has_it.wait()
    sys.settrace(interrupt_at(number))
    try:
        work()
        found = "done" if sys.gettrace() else "swallowed"
    except KeyboardInterrupt:
        found = "interrupted"
    except BaseException as error:
        found = repr(error)
    sys.settrace(None)
    if operation == "sleep":
        goes_on.set()
    for _ in steps:
        pass
    return found


def forked(operation, number):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            found = outcome_of(operation, number)
        except BaseException:
            found = traceback.format_exc()
        os.write(writer, found.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as answer:
        found = answer.read().decode()
    os.waitpid(child, 0)
    return found


operation, number = sys.argv[1], 0
while True:
    number += 1
    found = forked(operation, number)
    if found == "done":
        break
    if found != "interrupted":
        print(number, found)
print("places", number - 1)
"""

OPERATIONS = (
    "rows_of_messages",
    "rows_of_columns",
    "cut_window",
    "topic_table",
    "property_places",
    "hash",
    "units",
    "keys",
    "items",
    "view",
    "broken view",
    "no view",
    "wait",
    "sleep",
)


@pytest.mark.proof
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.costly
def test_ctrl_c_in_the_first_call_of_a_process_comes_out_as_it_is(operation):
    # Of threads of libraries, from Python 3.12 on: it is their matter.
    quiet = ("-W", "ignore:This process:DeprecationWarning")
    command = [sys.executable, *quiet, "-c", INTERRUPT_EVERY_CALL, operation]

    done = subprocess.run(command, capture_output=True, text=True)

    assert done.stderr == ""
    places, *others = reversed(done.stdout.splitlines())
    assert others == []
    assert int(places.removeprefix("places ")) > 0
