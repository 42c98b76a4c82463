from __future__ import annotations

import struct

import numpy as np

from reput.files.filenames import file_name
from reput.record import layout


def test_the_header_is_88_bytes_with_its_fields_where_the_format_puts_them():
    positions = {name: field[1] for name, field in layout.HEADER_DTYPE.fields.items()}

    assert layout.HEADER_SIZE == 88
    assert positions == {
        "size": 0,
        "magic": 4,
        "body_crc": 8,
        "queue_id": 12,
        "flag": 16,
        "queue_offset": 20,
        "physical_offset": 28,
        "sys_flag": 36,
        "born_timestamp": 40,
        "born_host": 48,
        "store_timestamp": 56,
        "store_host": 64,
        "reconsume_times": 72,
        "prepared_transaction_offset": 76,
        "body_size": 84,
    }


def test_the_header_reads_what_an_independent_encoder_wrote():
    values = (
        174,
        0xDAA320A7,
        7,
        3,
        -1,
        5,
        1 << 30,
        0x30,
        -2,
        b"bornhost",
        4,
        b"storehst",
        6,
        9,
        11,
    )
    raw = struct.pack(">iIiiiqqiq8sq8siqi", *values)

    record = np.frombuffer(raw, layout.HEADER_DTYPE)[0]

    assert tuple(bytes(v) if isinstance(v, np.void) else int(v) for v in record) == values
    assert layout.HEADER.unpack(raw) == values


def test_what_stands_behind_the_store_host_is_the_end_of_the_header():
    size = layout.AFTER_STORE_HOST_DTYPE.itemsize

    assert size == 16
    names = [
        name for name in layout.HEADER_DTYPE.names if layout.HEADER_DTYPE.fields[name][1] >= 72
    ]
    assert tuple(names) == layout.AFTER_STORE_HOST_DTYPE.names


def test_every_field_of_every_format_is_big_endian():
    for dtype in (layout.HEADER_DTYPE, layout.AFTER_STORE_HOST_DTYPE):
        for name, (field, _) in dtype.fields.items():
            assert field.kind == "V" or field.byteorder == ">", name


def test_a_file_is_named_by_its_offset_in_twenty_digits():
    assert file_name(1_073_741_824) == "00000000001073741824"
    assert file_name(0) == "0" * 20
