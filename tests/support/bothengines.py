"""Both engines in one process: kernels as the engine runs them, and as Python does."""

from __future__ import annotations

import contextlib
import sys
from types import CodeType
from unittest import mock

import numpy as np

import reput.engine

# Before anything is replaced: a module that is loaded meanwhile would keep what it found.
import reput.log.writer.commitlog
import reput.store.operations.puts
from reput.engine import REFERENCES, compiled_of
from reput.record import Decoder
from reput.record.layout import HEADER_DTYPE
from reput.record.text.topicdictionary import TopicDictionary
from reput_consumequeue.unitruns import light_runs, runs
from reput_index.batchkeys import KeysOfBatch

COLUMNS = ("physical_offset", "tags_code", *(HEADER_DTYPE.names or ()))
NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "a", "TAG", "XTAGS", "值", "", "TAGS\x01x", "\x02TAGS")


def is_kernel(value):
    """Whether another engine may run in the place of a function."""
    code = getattr(value, "__code__", None)
    is_from_there = isinstance(code, CodeType) and code.co_filename == reput.engine.__file__
    return is_from_there and hasattr(value, "__wrapped__")


@contextlib.contextmanager
def python_engine():
    """Python's functions and classes in the place of all compiled ones, wherever imported."""
    found = [
        (module, attribute, value)
        for name, module in list(sys.modules.items())
        if name.startswith("reput")
        for attribute, value in list(vars(module).items())
    ]
    kernels = [value for *_, value in found if is_kernel(value)]
    references = {id(value): reference for value, reference in REFERENCES.items()}
    references |= {id(value): value.__wrapped__ for value in kernels}
    references |= {id(compiled_of(value)): value.__wrapped__ for value in kernels}
    with contextlib.ExitStack() as stack:
        for module, attribute, value in found:
            if id(value) in references:
                stack.enter_context(mock.patch.object(module, attribute, references[id(value)]))
        yield


def python_decoder(**checks):
    """A decoder with nothing native in it, inside of `python_engine`."""
    return Decoder(topics=TopicDictionary(), **checks)


def everything(decoder, data, base, file_end=None):
    """All that a decoder and the plugins' kernels make of a window, for comparing."""
    result = decoder.decode(np.frombuffer(data, np.uint8), base, file_end)
    batch = result.batch
    found = {
        "end": (result.end, result.needed_size, batch.end_offset, batch.base_offset),
        "finding": None if batch.finding is None else (batch.finding, str(batch.finding)),
        "topics": batch.topics,
        "start": alike(batch.start),
        "size": alike(batch.size),
        "topic_code": alike(batch.topic_code),
    }
    found |= {name: alike(batch.column(name)) for name in COLUMNS}
    found["places"] = [alike(row) for row in batch._places]
    for name in NAMES:
        text = batch.text(name)
        found[f"text {name}"] = alike(text.starts), alike(text.sizes), alike(text.java_hash())
    found["runs"] = [_run(run) for run in runs(batch)]
    found["light runs"] = [_run(run) for run in light_runs(batch)]
    for adds_tags in (False, True):
        found[f"keys {adds_tags}"] = [alike(each) for each in KeysOfBatch(adds_tags)(batch)]
    return found


def _run(run):
    ends = alike(run.queue_offsets), alike(run.ends)
    return run.topic, run.queue_id, bytes(run.data), *ends, run.consecutive


def alike(array):
    """What must be equal of an array: its type, its length, its bytes."""
    return array.dtype.str, array.shape, array.tobytes()
