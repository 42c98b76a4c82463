"""No kernel reads a byte behind its window: there the process would end."""

from __future__ import annotations

import subprocess
import sys

import pytest

READ_UP_TO_A_PAGE_THAT_NOBODY_MAY_READ = """
import ctypes, faulthandler, mmap, random, struct
import numpy as np
from reput.files.system.vectoredread import read_pieces
from reput.record import Decoder, Encoder, Message
from reput.record.text.javatext import java_string_hash_column
from reput.record.text.properties import property_places, texts_of
from reput.record.text.topicdictionary import topic_table
from reput_arrow.propertymaps import property_maps
from reput_consumequeue.unitruns import runs
from reput_index.batchkeys import KeysOfBatch

faulthandler.enable()
page = mmap.PAGESIZE
memory = mmap.mmap(-1, 2 * page)
everything = np.frombuffer(memory, np.uint8)
protect = ctypes.CDLL(None, use_errno=True).mprotect
assert protect(ctypes.c_void_p(everything.ctypes.data + page), ctypes.c_size_t(page), 0) == 0
chance = random.Random(5)

def window_of(data):
    everything[page - len(data) : page] = np.frombuffer(data, np.uint8)
    return everything[page - len(data) : page]

encoders = Encoder(), Encoder(store_host=bytes(range(20)))
count = 0
for number in range(300):
    text = "".join(chance.choices("ab \\u6807", k=chance.randrange(90)))
    message = Message("T" * chance.randrange(1, 40), b"x" * chance.randrange(9), tags=text or None,
                      keys=[word for word in text.split()] or None, properties={"a": text or "1"})
    record = chance.choice(encoders).encode(message, 0, 0, 1)
    for data in (record, record[:-1], record[: chance.randrange(len(record))]):
        batch = Decoder(check_crc=True, check_record_crc=True).decode(window_of(data), 0).batch
        count += len(batch)
        list(runs(batch)), KeysOfBatch()(batch), batch.text("a").java_hash()
    for data in (record, bytes(chance.choices(b"\\x01\\x02TAGSa", k=chance.randrange(1, 200)))):
        window, size = window_of(data), chance.randrange(1, len(data) + 1)
        rows = np.array([len(data) - size]), np.array([size])
        java_string_hash_column(window, *rows), topic_table().encode(window, *rows)
        property_places(window, *rows).find(b"TAGS"), property_places(window, *rows).find(b"a")
        property_maps(window, *rows)
        assert texts_of(window, *rows) == [window[-size:].tobytes()]
        places = struct.pack(">qiqi", len(data) - size, size, size, len(data))
        read_pieces(window, 0, 1 << 40, places, 12, 1 << 20, 9, 1 << 20)
print(count)
"""


@pytest.mark.costly
def test_nothing_behind_a_window_is_read():
    command = [sys.executable, "-c", READ_UP_TO_A_PAGE_THAT_NOBODY_MAY_READ]

    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= 300
