"""A decoder of log windows that shares nothing with ours: one record at a time, with `struct`.

Written from the format's description (``docs/formats.md``), slow and plain on purpose: what the
columns say is compared with what this says.
"""

from __future__ import annotations

import struct
import zlib

MAGIC = {0xDAA320A7: 1, 0xDAA320AB: 2}  # and how many bytes the size of the topic takes
MIN_SIZE = 91
CRC_NAME = b"__CRC32#\x01"


def decode(window, base_offset, *, check_crc=False, check_offset=True, check_record_crc=False):
    """Dicts of all whole, sound records from the start of ``window`` on."""
    found, position = [], 0
    while True:
        one = decode_one(window[position:], base_offset + position)
        if one is None:
            return found
        if check_offset and one["physical_offset"] != base_offset + position:
            return found
        if check_crc and one["body"] and zlib.crc32(one["body"]) & 0x7FFFFFFF != one["body_crc"]:
            return found
        if check_record_crc and not record_crc_is_right(one):
            return found
        one["start"] = position
        found.append(one)
        position += one["size"]


def decode_one(data, where):
    """The record at the beginning of ``data``; None where there is no whole, consistent one."""
    if len(data) < MIN_SIZE:
        return None
    size, magic = struct.unpack_from(">iI", data)
    if magic not in MAGIC or not MIN_SIZE <= size <= len(data):
        return None
    data = data[:size]
    names = ("body_crc", "queue_id", "flag", "queue_offset", "physical_offset", "sys_flag")
    names += ("born_timestamp",)
    one = {"size": size, "magic": magic, "where": where, "record": data}
    one.update(zip(names, struct.unpack_from(">iiiqqiq", data, 8), strict=True))
    at = 48
    host = 20 if one["sys_flag"] & 0x10 else 8
    one["born_host"] = data[at : at + host]
    at += host
    host = 20 if one["sys_flag"] & 0x20 else 8
    if at + 8 + host + 16 + MAGIC[magic] + 2 > size:
        return None
    (one["store_timestamp"],) = struct.unpack_from(">q", data, at)
    one["store_host"] = data[at + 8 : at + 8 + host]
    at += 8 + host
    one["reconsume_times"], one["prepared_transaction_offset"], body_size = struct.unpack_from(
        ">iqi", data, at
    )
    at += 16
    body_end = at + max(body_size, 0)
    if body_end + MAGIC[magic] + 2 > size:
        return None
    one["body"] = data[at:body_end]
    (topic_size,) = struct.unpack_from(">b" if MAGIC[magic] == 1 else ">h", data, body_end)
    topic_start = body_end + MAGIC[magic]
    if topic_size < 0 or topic_start + topic_size + 2 > size:
        return None
    one["topic"] = data[topic_start : topic_start + topic_size]
    (properties_size,) = struct.unpack_from(">h", data, topic_start + topic_size)
    properties_start = topic_start + topic_size + 2
    if properties_start + max(properties_size, 0) != size:
        return None
    one["properties"] = data[properties_start:]
    return one


def record_crc_is_right(one):
    """Whether the property that sums up the whole record is missing or right."""
    reserved = one["properties"][-20:]
    if len(reserved) < 20 or not reserved.startswith(CRC_NAME):
        return True
    digits = reserved[9:19]
    if not digits.isdigit():
        return False
    return int(digits[::-1]) == zlib.crc32(one["record"][:-20]) & 0x7FFFFFFF


def properties_of(text):
    """Entries of one property text, bytes, the last of equal names."""
    found = {}
    for entry in text.split(b"\x02"):
        name, separator, value = entry.partition(b"\x01")
        if separator and name and value:
            found[name] = value
    return found


def text_of(data):
    """What Java decodes, byte after byte: ``String#decodeUTF8_UTF16`` without its speed."""
    units, at = [], 0
    while at < len(data):
        size, code = _character_at(data, at)
        units.append("\ufffd" if code is None else chr(code))
        at += size
    return "".join(units)


def _character_at(data, at):
    """Bytes of the character, or of what is replaced as one; its code, None when it is replaced."""
    first = data[at]
    if first < 0x80:
        return 1, first
    if 0xC2 <= first <= 0xDF:
        follows, code, lowest, highest = 1, first & 0x1F, 0x80, 0xBF
    elif 0xE0 <= first <= 0xEF:
        follows, code = 2, first & 0xF
        lowest, highest = (0xA0 if first == 0xE0 else 0x80), 0xBF
    elif 0xF0 <= first <= 0xF4:
        follows, code = 3, first & 7
        lowest, highest = (0x90 if first == 0xF0 else 0x80), (0x8F if first == 0xF4 else 0xBF)
    else:
        return 1, None
    for place in range(1, follows + 1):
        if at + place == len(data) or not lowest <= data[at + place] <= highest:
            return place, None
        code = code << 6 | data[at + place] & 0x3F
        lowest, highest = 0x80, 0xBF
    return follows + 1, None if 0xD800 <= code <= 0xDFFF else code


def java_hash(text):
    """``String.hashCode`` of a text, one UTF-16 unit at a time."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
