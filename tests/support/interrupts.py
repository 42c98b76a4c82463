"""Signal handlers at chosen moments: between which byte codes CPython runs them, one by one.

CPython looks for signals (its "eval breaker") when a function begins, when a loop goes round and
when a call has returned, and nowhere else; it runs their handlers there, on the main thread. A
trace function that sees every byte code can do the same at the n-th such place, and so at each of
them. It comes one byte code later than CPython would: where that lies outside of a ``try`` or
``with`` that the call lay in, what follows from a raising handler would differ, and the place is
left out; there is none such between a call and the beginning of a block.
"""

from __future__ import annotations

import contextlib
import contextlib as _contextlib
import dis
import functools
import os
import sys
import threading

import reput

_PACKAGE = os.path.dirname(reput.__file__) + os.sep
_STDLIB = {threading.__file__, _contextlib.__file__}
_CALLS = {"CALL", "CALL_FUNCTION_EX", "CALL_KW", "RESUME"}


@functools.cache
def _operations(code):
    return {each.offset: each.opname for each in dis.get_instructions(code)}


@functools.cache
def _handlers(code):
    return [(each.start, each.end, each.target) for each in dis._parse_exception_table(code)]


def _handler(code, offset):
    return next((to for start, end, to in _handlers(code) if start <= offset < end), None)


class Interrupts:
    """Runs ``handler`` at the n-th place of this thread at which CPython would; once.

    Attributes:
        count: places that were passed.
        where: the one at which the handler ran, for messages of failing tests.
    """

    def __init__(self, at, handler):
        self.at = at
        self.handler = handler
        self.count = 0
        self.where = None
        self._before = {}

    def __enter__(self):
        self._old = sys.gettrace()
        # From 3.12 on, `settrace` looks whether anybody wants byte codes when it is called.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(self._old)
        self._before.clear()

    def _call(self, frame, event, argument):
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and name not in _STDLIB:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._step

    def _step(self, frame, event, argument):
        if event != "opcode" or self.where is not None:
            return self._step
        code, offset = frame.f_code, frame.f_lasti
        before = self._before.get(frame)
        self._before[frame] = offset
        if before is None or not self._looks(code, before, offset):
            return self._step
        self.count += 1
        if self.count == self.at:
            self.where = f"{code.co_qualname}:{frame.f_lineno}"
            sys.settrace(None)
            self._before.clear()
            try:
                self.handler()
            except BaseException:
                # CPython only reports what a destructor raises, and goes on.
                if code.co_name != "__del__":
                    raise
        return self._step

    def _looks(self, code, before, offset):
        went_round = offset <= before
        called = _operations(code).get(before) in _CALLS
        return (went_round or called) and _handler(code, before) == _handler(code, offset)


def interrupt():
    """What Python does at Ctrl-C."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def interrupted(at):
    """Ctrl-C at the n-th place of the block; swallowed. Gives the `Interrupts`."""
    interrupts = Interrupts(at, interrupt)
    with contextlib.suppress(KeyboardInterrupt), interrupts:
        yield interrupts
