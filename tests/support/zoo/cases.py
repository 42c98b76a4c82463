"""The sick stores of the zoo: every byte class damaged, and every way in which files go wrong.

A case has a name, the healthy store that it is made from, and says which messages it harms. All of
them follow from one seed.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping

import attrs
from zoo.stores import MAKERS, Healthy, healthy

from reput.record import MessageView
from reput.record.layout import BORN_HOST_V6, HEADER_DTYPE, STORE_HOST_V6, host_size

SEED = 14
Files = dict[str, bytes]


@attrs.frozen(eq=False)
class Sick:
    """A sick store."""

    files: Mapping[str, bytes]
    harmed: frozenset[int] = frozenset()
    """Physical offsets of messages whose record is damaged or gone."""
    altered: frozenset[int] = frozenset()
    """Those of them that no check of RocketMQ's tells from sound ones: a whole-record checksum or
    the sidecar of the integrity plugin does."""
    is_seen: bool = True
    """Whether the damage can be told from the store alone."""


@attrs.frozen(eq=False)
class Case:
    """A way in which a store gets sick."""

    name: str
    store: str
    damage: Callable[[Healthy, random.Random], Sick]

    def make(self) -> Sick:
        """Return the sick store; the same each time."""
        return self.damage(healthy(self.store), random.Random(f"{SEED} {self.name}"))


# --------------------------------------------------------------------------- bytes of records


def _fields(message: MessageView) -> dict[str, tuple[int, int]]:
    """Return position and size of each part of a record."""
    found = {}
    for name in ("size", "magic", "body_crc", "queue_id", "flag", "queue_offset"):
        found[name] = _of_header(name)
    for name in ("physical_offset", "sys_flag", "born_timestamp"):
        found[name] = _of_header(name)
    at = 48
    for name, size in (
        ("born_host", host_size(message.sys_flag, BORN_HOST_V6)),
        ("store_timestamp", 8),
        ("store_host", host_size(message.sys_flag, STORE_HOST_V6)),
        ("reconsume_times", 4),
        ("prepared_offset", 8),
        ("body_size", 4),
    ):
        found[name] = at, size
        at += size
    body, topic, topic_end, properties = message.places()
    topic_size = 1 if message.record[7] == 0xA7 else 2
    found["body"] = body, topic - topic_size - body
    found["topic_size"] = topic - topic_size, topic_size
    found["topic"] = topic, topic_end - topic
    found["properties_size"] = topic_end, 2
    found["properties"] = properties, message.size - properties
    return found


def _of_header(name: str) -> tuple[int, int]:
    dtype, offset = HEADER_DTYPE.fields[name][:2]
    return int(offset), dtype.itemsize


_INVISIBLE = frozenset(
    (
        *("flag", "born_timestamp", "born_host", "store_timestamp", "store_host"),
        *("reconsume_times", "prepared_offset", "properties", "topic", "sys_flag"),
        *("queue_id", "queue_offset"),
    )
)
"""Parts that RocketMQ's checksum does not cover. Queues show some of what is wrong there."""

_FIELDS = (
    *("size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset"),
    *("sys_flag", "born_timestamp", "born_host", "store_timestamp", "store_host"),
    *("reconsume_times", "prepared_offset", "body_size", "body", "topic_size", "topic"),
    *("properties_size", "properties"),
)
_SEEN_BY_QUEUES = frozenset(("queue_id", "queue_offset", "topic"))


def _record(store: Healthy, where: str, chance: random.Random) -> MessageView:
    """Return a record with a body and properties, at a place in the log."""
    bases = store.bases
    base = {"first": bases[0], "last": bases[-1]}.get(where, bases[len(bases) // 2])
    found = [
        each
        for each in store.of_file(base)
        if each.body and len(each.properties_text) > 8 and each.sys_flag & 0xC == 0
    ]
    if where == "first":
        return found[0]
    if where == "last":
        return found[-1]
    return found[chance.randrange(1, len(found) - 1)]


def _flip(part: str, where: str) -> Callable[[Healthy, random.Random], Sick]:
    def damage(store: Healthy, chance: random.Random) -> Sick:
        message = _record(store, where, chance)
        at, size = _fields(message)[part]
        at += chance.randrange(size)
        bit = 1 << chance.randrange(8)
        files = dict(store.files)
        byte = message.record[at]
        _write(store, files, message.physical_offset + at, bytes([byte ^ bit]))
        return _sick(store, files, message, part)

    return damage


def _zero(part: str, where: str) -> Callable[[Healthy, random.Random], Sick]:
    def damage(store: Healthy, chance: random.Random) -> Sick:
        message = _record(store, where, chance)
        at, size = _fields(message)[part]
        files = dict(store.files)
        _write(store, files, message.physical_offset + at, bytes(size))
        return _sick(store, files, message, part)

    return damage


def _sick(store: Healthy, files: Files, message: MessageView, part: str) -> Sick:
    if files == dict(store.files):
        return Sick(files, is_seen=False)  # zeros that were zeros
    harmed = frozenset([message.physical_offset])
    has_crc = "crc" in store.name
    if part in _INVISIBLE and not has_crc:
        return Sick(files, harmed, harmed, is_seen=part in _SEEN_BY_QUEUES)
    return Sick(files, harmed)


def _write(store: Healthy, files: Files, offset: int, data: bytes) -> None:
    base = offset - offset % store.file_size
    name = f"commitlog/{base:020d}"
    files[name] = _with(files[name], offset - base, data)


def _with(whole: bytes, at: int, data: bytes) -> bytes:
    return whole[:at] + data + whole[at + len(data) :]


# --------------------------------------------------------------------------- ranges of the log


def _range(size: int, fill: Callable[[int, random.Random], bytes], where: str = "middle"):
    """Overwrite ``size`` bytes; a size of 0 is exactly one record."""

    def damage(store: Healthy, chance: random.Random) -> Sick:
        message = _record(store, where, chance)
        start = message.physical_offset
        base = start - start % store.file_size
        count = min(size or message.size, base + store.file_size - start)
        files = dict(store.files)
        _write(store, files, start, fill(count, chance))
        harmed = [
            each.physical_offset
            for each in store.of_file(base)
            if start <= each.physical_offset < start + count
        ]
        return Sick(files, frozenset(harmed))

    return damage


def _zeros(count: int, chance: random.Random) -> bytes:
    return bytes(count)


def _noise(count: int, chance: random.Random) -> bytes:
    return chance.randbytes(count)


def _ones(count: int, chance: random.Random) -> bytes:
    return b"\xff" * count


def _blank_record(kind: str) -> Callable[[Healthy, random.Random], Sick]:
    """Damage the blank that closes a file in the middle."""

    def damage(store: Healthy, chance: random.Random) -> Sick:
        base = store.bases[len(store.bases) // 2 - 1]
        last = store.of_file(base)[-1]
        at = last.physical_offset + last.size
        files = dict(store.files)
        if kind == "size":
            data = struct.pack(">i", base + store.file_size - at + 16)
        elif kind == "magic":
            at, data = at + 4, b"\xcb\xd4\x31\x95"
        else:
            data = bytes(8)
        _write(store, files, at, data)
        return Sick(files)

    return damage


# --------------------------------------------------------------------------- files of the log


def _log_file(kind: str, where: str) -> Callable[[Healthy, random.Random], Sick]:
    def damage(store: Healthy, chance: random.Random) -> Sick:
        names, files = store.log_names, dict(store.files)
        number = {"first": 0, "last": len(names) - 1}.get(where, len(names) // 2)
        name, data = names[number], files[names[number]]
        base, harmed = store.bases[number], []
        in_file = store.of_file(base)
        half = in_file[len(in_file) // 2].physical_offset + 20 - base
        beyond = [
            each.physical_offset
            for each in in_file
            if each.physical_offset + each.size - base > half
        ]
        match kind:
            case "missing":
                del files[name]
                harmed = [each.physical_offset for each in in_file]
            case "empty":
                files[name] = b""
                harmed = [each.physical_offset for each in in_file]
            case "zeroed":
                files[name] = bytes(len(data))
                harmed = [each.physical_offset for each in in_file]
            case "cut":
                files[name] = data[:half]
                harmed = beyond
            case "half-zeroed":
                files[name] = data[:half] + bytes(len(data) - half)
                harmed = beyond
            case "grown":
                files[name] = data + chance.randbytes(100)
            case "doubled":
                files[name + ".copy"] = data
            case "doubled-as-next":
                files[f"commitlog/{store.bases[-1] + 9 * store.file_size:020d}"] = data
            case "renamed":
                del files[name]
                files["commitlog/recovered-1"] = data
            case "shifted":
                del files[name]
                files[f"commitlog/{store.bases[-1] + 3 * store.file_size:020d}"] = data
            case "swapped":
                other = names[number - 1]
                files[name], files[other] = files[other], files[name]
        # Without its first file a log looks like one whose oldest messages were removed.
        is_seen = (kind, where) != ("missing", "first")
        return Sick(files, frozenset(harmed), is_seen=is_seen)

    return damage


def _foreign_file(other: str) -> Callable[[Healthy, random.Random], Sick]:
    """Put the file of another store, of the same size and name, in the place of one."""

    def damage(store: Healthy, chance: random.Random) -> Sick:
        number = len(store.bases) // 2
        name, base = store.log_names[number], store.bases[number]
        files = {**store.files, name: healthy(other).files[name]}
        return Sick(files, frozenset(each.physical_offset for each in store.of_file(base)))

    return damage


def _strange_files(store: Healthy, chance: random.Random) -> Sick:
    files = {
        **store.files,
        "commitlog/notes.txt": b"call the vendor",
        "commitlog/00000000000000000000.swp": chance.randbytes(300),
        f"commitlog/{7 << 50:020d}": chance.randbytes(store.file_size),
    }
    return Sick(files)


# --------------------------------------------------------------------------- derived files


def _derived(directory: str, kind: str) -> Callable[[Healthy, random.Random], Sick]:
    def damage(store: Healthy, chance: random.Random) -> Sick:
        files = dict(store.files)
        names = sorted(
            name for name in files if name.startswith(f"{directory}/") and any(files[name])
        )
        name = names[chance.randrange(len(names))]
        data = files[name]
        used = len(data.rstrip(b"\0"))
        match kind:
            case "missing":
                del files[name]
            case "all-missing":
                files = {key: each for key, each in files.items() if key not in names}
            case "empty":
                files[name] = b""
            case "zeroed":
                files[name] = bytes(len(data))
            case "cut":
                files[name] = data[: used // 2 + 3]
            case "noise":
                files[name] = chance.randbytes(len(data))
            case "swapped":
                other = next(each for each in names if files[each] != data)
                files[name], files[other] = files[other], data
            case "doubled":
                files[name + ".copy"] = data
            case "renamed":
                del files[name]
                files[f"{name[:-3]}777"] = data
            case "flipped":
                at = chance.randrange(used)
                files[name] = _with(data, at, bytes([data[at] ^ 1 << chance.randrange(8)]))
        # Names of index files say when they were made, which no query depends on.
        is_seen = directory != "index" or kind not in ("swapped", "renamed")
        return Sick(files, is_seen=is_seen)

    return damage


def _unit(field: str, kind: str) -> Callable[[Healthy, random.Random], Sick]:
    at, size = {"offset": (0, 8), "size": (8, 4), "tags": (12, 8)}[field]

    def damage(store: Healthy, chance: random.Random) -> Sick:
        files = dict(store.files)
        names = [name for name in files if name.startswith("consumequeue/") and any(files[name])]
        name = sorted(names)[chance.randrange(len(names))]
        data = files[name]
        count = len(data.rstrip(b"\0")) // 20 or 1
        place = chance.randrange(count) * 20 + at
        old = data[place : place + size]
        new = bytes(size) if kind == "zeroed" else _flipped(old, chance)
        files[name] = _with(data, place, new)
        return Sick(files, is_seen=new != old)

    return damage


def _index_part(part: str) -> Callable[[Healthy, random.Random], Sick]:
    header = ("begin_time", "end_time", "begin_offset", "end_offset", "slots_used", "next_item")

    def damage(store: Healthy, chance: random.Random) -> Sick:
        files = dict(store.files)
        names = sorted(name for name in files if name.startswith("index/"))
        name = names[0]
        data = files[name]
        slots = (len(data) - 40 - 40 * 20) // 4 if store.name.startswith("reput") else 50
        if part in header:
            number = header.index(part)
            at, size = (number * 8, 8) if number < 4 else (32 + (number - 4) * 4, 4)
        elif part == "slot":
            used = [at for at in range(40, 40 + slots * 4, 4) if any(data[at : at + 4])]
            at, size = used[chance.randrange(len(used))], 4
        else:
            where, size = {"hash": (0, 4), "offset": (4, 8), "time": (12, 4), "previous": (16, 4)}[
                part.partition("_")[2]
            ]
            at = 40 + slots * 4 + 20 * chance.randrange(1, 30) + where
        files[name] = _with(data, at, _flipped(data[at : at + size], chance))
        return Sick(files)

    return damage


def _flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return _with(data, at, bytes([data[at] ^ 1 << chance.randrange(8)]))


# --------------------------------------------------------------------------- small files


def _small_file(name: str, kind: str) -> Callable[[Healthy, random.Random], Sick]:
    def damage(store: Healthy, chance: random.Random) -> Sick:
        files = dict(store.files)
        data = files[name]
        match kind:
            case "missing":
                del files[name]
            case "empty":
                files[name] = b""
            case "cut":
                files[name] = data[: len(data) // 2]
            case "zeroed":
                files[name] = bytes(len(data))
            case "noise":
                files[name] = chance.randbytes(len(data))
        # The second half of a checkpoint is not used.
        is_seen = kind != "missing" and (name, kind) != ("checkpoint", "cut")
        return Sick(files, is_seen=is_seen)

    return damage


def _checkpoint(number: int) -> Callable[[Healthy, random.Random], Sick]:
    """Put a time of the checkpoint into the future."""

    def damage(store: Healthy, chance: random.Random) -> Sick:
        data = store.files["checkpoint"]
        at = number * 8 + 1
        future = bytes([data[at] ^ 1 << chance.randrange(5)])
        return Sick({**store.files, "checkpoint": _with(data, at, future)})

    return damage


def _config(kind: str) -> Callable[[Healthy, random.Random], Sick]:
    def damage(store: Healthy, chance: random.Random) -> Sick:
        files, name = dict(store.files), "config/consumerOffset.json"
        match kind:
            case "cut":
                files[name] = files[name][:-9]
            case "empty":
                files[name] = b""
            case "noise":
                files[name] = chance.randbytes(200)
            case "missing":
                del files[name]
            case "both":
                files[name], files[f"{name}.bak"] = b"{", b"["
            case "beyond":
                text = files[name].decode()
                number = text.index("@shop")
                at = text.index("0:", number) + 2
                files[name] = (text[:at] + "9" * 7 + text[at:]).encode()
            case "no-object":
                files[name] = b"[1,2]"
        # Of a file whose backup is left RocketMQ reads the backup.
        return Sick(files, is_seen=kind != "missing")

    return damage


def _several(store: Healthy, chance: random.Random) -> Sick:
    """Damage a record in each file, a queue, the index, the checkpoint and the config at once."""
    files, harmed = dict(store.files), set()
    for base in store.bases:
        records = [each for each in store.of_file(base) if each.body]
        message = records[chance.randrange(len(records))]
        _write(store, files, message.physical_offset + message.places()[0], b"\xfe\xdc")
        harmed.add(message.physical_offset)
        assert zlib.crc32(b"\xfe\xdc" + message.body[2:]) & 0x7FFFFFFF != message.body_crc
    queue = next(name for name in sorted(files) if name.startswith("consumequeue/"))
    files[queue] = bytes(len(files[queue]))
    index = next(name for name in sorted(files) if name.startswith("index/"))
    files[index] = files[index][:77]
    files["checkpoint"] = b"?"
    files["config/topics.json"] = b"{"
    return Sick(files, frozenset(harmed))


# --------------------------------------------------------------------------- all of them

_RECORDS = ("rocketmq-4.8.0-slow", "rocketmq-5.3.3-retry", "reput", "reput-crc")
_V6 = "rocketmq-4.8.0-v6"


def cases() -> Iterator[Case]:
    """Yield every case, in an order that never changes."""
    for store in _RECORDS:
        for part in _FIELDS:
            for where in ("middle", "first", "last"):
                yield Case(f"{store}/flip-{part}-{where}", store, _flip(part, where))
    for part in _FIELDS:
        yield Case(f"{_V6}/flip-{part}", _V6, _flip(part, "middle"))
    for store in ("rocketmq-4.8.0-slow", "reput-killed"):
        for part in _FIELDS:
            yield Case(f"{store}/zero-{part}", store, _zero(part, "middle"))
    for store in (*_RECORDS[:3], "rocketmq-4.8.0-transaction", "reput-history"):
        for kind, fill in (("zeros", _zeros), ("noise", _noise), ("ones", _ones)):
            for size in (0, 512, 1500):
                name = f"{store}/{kind}-over-{size or 'a-record'}"
                yield Case(name, store, _range(size, fill))
        for kind in ("size", "magic", "zeroed"):
            yield Case(f"{store}/blank-{kind}", store, _blank_record(kind))
    for store in MAKERS:
        for where in ("first", "middle", "last"):
            for kind in ("missing", "empty", "zeroed", "cut", "half-zeroed"):
                yield Case(f"{store}/log-{kind}-{where}", store, _log_file(kind, where))
        for kind in ("grown", "doubled", "doubled-as-next", "renamed", "shifted", "swapped"):
            yield Case(f"{store}/log-{kind}", store, _log_file(kind, "middle"))
        yield Case(f"{store}/log-strange", store, _strange_files)
        yield Case(f"{store}/several", store, _several)
    yield Case("slow-of-transaction", "rocketmq-4.8.0-slow", _foreign_file("rocketmq-4.8.0-v6"))
    yield Case("v6-of-slow", _V6, _foreign_file("rocketmq-4.8.0-slow"))
    yield Case("reput-of-history", "reput", _foreign_file("reput-crc"))
    for store in ("rocketmq-4.8.0-slow", "rocketmq-5.3.3-retry", "reput"):
        for directory in ("consumequeue", "index"):
            for kind in (
                *("missing", "all-missing", "empty", "zeroed", "cut"),
                *("noise", "swapped", "doubled", "renamed", "flipped"),
            ):
                name = f"{store}/{directory}-{kind}"
                yield Case(name, store, _derived(directory, kind))
        for field in ("offset", "size", "tags"):
            for kind in ("flipped", "zeroed"):
                yield Case(f"{store}/unit-{field}-{kind}", store, _unit(field, kind))
        for part in (
            *("begin_time", "end_time", "begin_offset", "end_offset", "slots_used", "next_item"),
            *("slot", "item_hash", "item_offset", "item_time", "item_previous"),
        ):
            yield Case(f"{store}/index-{part}", store, _index_part(part))
        for number, field in enumerate(("log", "queues", "index")):
            yield Case(f"{store}/checkpoint-{field}", store, _checkpoint(number))
        for kind in ("missing", "empty", "cut", "noise"):
            yield Case(f"{store}/checkpoint-{kind}", store, _small_file("checkpoint", kind))
        for kind in ("cut", "empty", "noise", "missing", "both", "beyond", "no-object"):
            yield Case(f"{store}/config-{kind}", store, _config(kind))
    for name in ("reput/state",):
        for kind in ("missing", "empty", "cut", "zeroed", "noise"):
            label = name.replace("/", "-").removeprefix("reput-")
            yield Case(f"reput-history/{label}-{kind}", "reput-history", _small_file(name, kind))
