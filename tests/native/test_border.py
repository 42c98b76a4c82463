"""At the border to Python a panic becomes an error, and nothing ends the process."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from plainmemory import plain_memory

from reput.record import Encoder, Message
from reput.record.messageview import MessageView

SOURCES = Path(__file__).parents[2] / "native" / "src"

CANNOT_PANIC = {
    # Those that answer with a field, count, take or give a lock, or borrow for a moment what nobody
    # has borrowed.
    "Appender.__clear__",
    "Appender.__traverse__",
    "Appender.allow",
    "Appender.ask_to_wake",
    "Appender.base_offset",
    "Appender.end_offset",
    "Appender.file",
    "Appender.file_limit",
    "Appender.is_appending",
    "Appender.last_record_offset",
    "Appender.let_go",
    "Appender.move_record_limit",
    "Appender.queue_count",
    "Appender.record_limit",
    "Appender.refuse",
    "Appender.set_is_appending",
    "Appender.take_turns",
    "Putter.__traverse__",
    "SendFastPath.__traverse__",
    "Rows.__len__",
    "Rows.mapped_size",
    "Rows.size_from",
    "MessageView.__clear__",
    "MessageView.__traverse__",
    "MessageView.checked",
    "MessageView.physical_offset",
    "MessageView.record",
    "FlushLeader.fail",
    "FlushLeader.flushed_offset",
    "FlushLeader.new",
    "FlushLeader.reached",
    "FlushLeader.use_calls",
    "FlushLeader.use_file",
    "FlushRequests.ask",
    "FlushRequests.is_asked",
    "FlushRequests.new",
    "TopicTable.names",
    "topic_table",
}


def run(program, *arguments):
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def functions_of_python():
    """Name and text of each function that Python calls."""
    for path in SOURCES.rglob("*.rs"):
        text = path.read_text()
        for name, body in re.findall(r"^#\[pyfunction\].*?fn (\w+)(.*?)^}", text, re.M | re.S):
            yield name, body
        for owner, block in re.findall(r"^#\[pymethods\]\nimpl (\w+) {(.*?)^}", text, re.M | re.S):
            for name, body in re.findall(r"^    fn (\w+)(.*?)^    }", block, re.M | re.S):
                yield f"{owner}.{name}", body


def test_each_function_that_python_calls_turns_a_panic_into_an_error():
    guards = ("guarded(", "shielded(", "self.field(", "self.part(")
    bare = {
        name for name, body in functions_of_python() if not any(guard in body for guard in guards)
    }

    assert bare == CANNOT_PANIC
    assert {name.split(".")[0] for name, _ in functions_of_python()} > {"Appender", "Putter"}


@pytest.mark.costly
def test_a_cycle_through_the_properties_of_a_message_is_collected():
    class Owner:
        pass

    record = Encoder().encode(Message("T", b"x", properties={"a": "1"}), 0, 0, 1)
    view, owner = MessageView(record), Owner()
    view.properties["owner"] = owner
    owner.view = view
    gone = weakref.ref(owner)

    del view, owner
    gc.collect()

    assert gone() is None


NO_MEMORY = """
import os, resource, struct, sys
from reput.files.system.vectoredread import read_pieces

with open(sys.argv[1], "w+b") as file:
    file.truncate(2**31)
    places = struct.pack(">qi", 0, 2**31 - 1)
    size = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**28,) * 2)
    try:
        read_pieces(file.fileno(), 0, 2**31, places, 12, 2**31 - 1, 1, 0)
    except MemoryError:
        print("MemoryError")
    print(len(read_pieces(file.fileno(), 0, 2**31, struct.pack(">qi", 0, 99), 12, 99, 1, 0)[0][0]))
"""


@pytest.mark.shows("compiled")
@plain_memory
def test_a_piece_that_memory_does_not_hold_is_a_memory_error(tmp_path):
    done = run(NO_MEMORY, str(tmp_path / "file"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "MemoryError\n99\n", "")


FREE_THREADED = """
import sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
import reput.engine
print(reput.engine.ENGINE)
"""


def test_a_free_threaded_build_runs_the_kernels_in_python(monkeypatch):
    monkeypatch.delenv("REPUT_ENGINE", raising=False)

    done = run(FREE_THREADED)

    assert done.stdout == (
        "python (reput-native cannot be loaded: its kernels need the interpreter lock, "
        "which this build of CPython does not have)\n"
    )


IN_A_SUBINTERPRETER = """
import sys
try:
    import _interpreters as interpreters
    new = lambda: interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    new = lambda: interpreters.create(isolated=False)
if sys.argv[1] == "main first":
    import reput.engine
inside = new()
text = '''
import warnings
warnings.simplefilter("ignore")
import reput.engine
print(reput.engine.ENGINE, flush=True)
'''
failed = interpreters.run_string(inside, text)
assert failed is None, failed
import reput.engine
print(reput.engine.ENGINE)
"""


@pytest.mark.parametrize("order", ["main first", "main last"])
@pytest.mark.costly
def test_a_second_interpreter_of_a_process_runs_the_kernels_in_python(monkeypatch, order):
    monkeypatch.delenv("REPUT_ENGINE", raising=False)

    done = run(IN_A_SUBINTERPRETER, order)

    inside, outside = done.stdout.splitlines()
    assert inside == (
        "python (reput-native cannot be loaded: its kernels run in the first interpreter of a "
        "process only)"
    )
    assert outside.startswith("native")
