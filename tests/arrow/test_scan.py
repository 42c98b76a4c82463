"""A scan yields what a plain look at every message finds, in batches of bounded size."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sparkstores import FILE_SIZE, fill, messages_of

import reput
from reput.errors import ConfigError, CorruptFileError, StoreNotFoundError
from reput_arrow import COLUMNS, Scan, scan, schema_of, table

NAMES = [column.name for column in COLUMNS]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store of some files, which is only read."""
    path = tmp_path_factory.mktemp("scanned") / "store"
    fill(path)
    return path


@pytest.fixture(scope="module")
def messages(root):
    return messages_of(root)


def offsets_of(found):
    return [offset for batch in found for offset in batch.column("physical_offset").to_pylist()]


def test_a_table_has_all_columns_of_all_messages(root, messages):
    found = table(root)

    assert found.schema == schema_of()
    assert found["body"].to_pylist() == [message.body for message in messages]
    assert found["physical_offset"].to_pylist() == [each.physical_offset for each in messages]
    assert isinstance(scan(root), Scan)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "topic": st.sampled_from(["topic-0", ["topic-1", "topic-2"], "nobody"]),
        "queue": st.sampled_from([0, [1, 2], 9]),
        "min_queue_offset": st.integers(0, 40),
        "max_queue_offset": st.integers(0, 40),
        "corrupt": st.sampled_from(["fail", "skip", "report"]),
        "batch_size": st.sampled_from([1, 5_000, 16 << 20]),
        "body": st.sampled_from(["binary", "text"]),
    },
)


def is_wanted(message, options):
    """What the options of a scan mean, for one message."""
    topics, queue_ids = options.get("topic"), options.get("queue")
    return (
        (topics is None or message.topic in ([topics] if isinstance(topics, str) else topics))
        and (
            queue_ids is None
            or message.queue_id in ([queue_ids] if isinstance(queue_ids, int) else queue_ids)
        )
        and message.queue_offset >= options.get("min_queue_offset", 0)
        and message.queue_offset < options.get("max_queue_offset", 1 << 40)
    )


@settings(max_examples=60)
@given(options=OPTIONS, columns=st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
def test_rows_are_those_of_a_plain_model(root, messages, options, columns):
    names = [*columns, *({"physical_offset"} - set(columns))]

    batches = list(scan(root, columns=names, **options))

    wanted = [message for message in messages if is_wanted(message, options)]
    table = pa.Table.from_batches(batches, scan(root, columns=names, **options).schema)
    assert table["physical_offset"].to_pylist() == [each.physical_offset for each in wanted]
    if "body" in names:
        bodies = [each.body for each in wanted]
        if options.get("body") == "text":
            bodies = [body.decode() for body in bodies]
        assert table["body"].to_pylist() == bodies
    limit = options.get("batch_size", 16 << 20)
    assert all(batch.nbytes <= limit or batch.num_rows == 1 for batch in batches)


def test_each_reader_begins_anew_and_columns_not_asked_for_are_not_there(root, messages):
    found = scan(root, columns=["keys", "queue_id"])

    once, twice = found.table(), found.reader().read_all()

    assert once.equals(twice)
    assert once.num_rows == len(messages)
    assert once.column_names == ["keys", "queue_id"]
    assert pa.table(found).equals(once)  # by the PyCapsule


def test_a_condition_on_properties_is_one_of_the_plugin_filter(root, messages):
    pytest.importorskip("reput_filter")

    found = scan(root, where="weight BETWEEN 3 AND 4", columns=["physical_offset"])

    wanted = [each for each in messages if each.properties["weight"] in ("3", "4")]
    assert offsets_of(found) == [each.physical_offset for each in wanted]
    with pytest.raises(ConfigError, match="where"):
        scan(root, where="weight BETWEEN")


def test_the_path_of_each_row_and_several_stores(tmp_path):
    for name, count in (("a", 2), ("b", 3)):
        fill(tmp_path / name, count)

    both = scan(tmp_path, columns=["store", "flag"]).table()

    assert both["flag"].to_pylist() == [0, 1, 0, 1, 2]
    assert [os.path.basename(path) for path in both["store"].to_pylist()] == ["a"] * 2 + ["b"] * 3
    assert scan([tmp_path / "b", tmp_path / "a"], columns=["flag"]).table().num_rows == 5


def test_a_topic_that_the_store_does_not_have_is_reported(tmp_path, caplog):
    with reput.open(tmp_path, plugins=["consumequeue"]) as store:
        store.put(reput.Message("T", b"1"))

    assert scan(tmp_path, topic="T").table().num_rows == 1
    assert caplog.text == ""
    assert scan(tmp_path, topic=["TT", "orders"]).table().num_rows == 0
    assert "no queue of the topic 'TT'; did you mean 'T'?" in caplog.text
    assert "no queue of the topic 'orders'; there are T" in caplog.text
    (tmp_path / "consumequeue" / "CURRENT").write_bytes(b"")  # plain queues do not have all topics
    caplog.clear()
    assert scan(tmp_path, topic=["TT", "orders"]).table().num_rows == 0
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"columns": ["color"]}, "color"),
        ({"columns": "body"}, "list of names"),
        ({"columns": ["body", "body"]}, "twice"),
        ({"columns": ["damage"]}, "damage"),
        ({"corrupt": "perhaps"}, "fail, skip, report"),
        ({"body": "json"}, "binary, text"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "1"}, "batch_size: an integer"),
        ({"topic": "T", "max_queue_offset": "1"}, "max_queue_offset: an integer"),
        ({"topic": "T", "max_queue_offset": np.True_}, "max_queue_offset: an integer"),
        ({"topic": "T", "min_queue_offset": 1 << 63}, "min_queue_offset: an integer of 64 bits"),
        ({"topic": ["T", 1]}, "topic: one or more strings"),
        ({"since": "yesterday"}, "since"),
        ({"until": True}, "until"),
        ({"topic": []}, "topic"),
        ({"queue": "0"}, "queue"),
        ({"queue": True}, "queue"),
        ({"queue": 0.5}, "queue: one or more integers"),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_anything_is_read(options, match):
    with pytest.raises(ConfigError, match=match):
        scan("nowhere", **options)


def test_values_of_numpy_are_taken_as_those_of_python(root, messages):
    since = messages[len(messages) // 2].store_timestamp
    asked = {"topic": ["topic-1"], "queue": [1, 2], "since": since, "batch_size": 5_000}
    asked |= {"min_queue_offset": -1, "max_queue_offset": 30}
    from_numpy = {"topic": np.array(["topic-1"]), "queue": np.array([1, 2])}
    for name in ("since", "batch_size", "min_queue_offset", "max_queue_offset"):
        from_numpy[name] = np.int64(asked[name])

    found = table(root, **from_numpy)
    assert len(found) > 0
    assert found == table(root, **asked)


def test_a_path_without_a_log_is_told_when_reading_begins(tmp_path):
    found = scan(tmp_path / "nothing")

    with pytest.raises(StoreNotFoundError, match="nothing"):
        found.table()


# --------------------------------------------------------------------------- queues


@pytest.mark.parametrize("corrupt", ["fail", "skip", "report"])
def test_damage_in_a_queue_is_what_it_is_in_a_log(root, messages, tmp_path, corrupt):
    pytest.importorskip("reput_consumequeue")
    store = shutil.copytree(root, tmp_path / "store")
    with reput.open(store, plugins=("consumequeue",)) as writer:
        writer.wait_dispatched()
    asked = {"topic": "topic-1", "queue": 1, "min_queue_offset": 5, "max_queue_offset": 9}
    wanted = [each.physical_offset for each in messages if is_wanted(each, asked)]
    damage(store, wanted[1])
    found = scan(store, **asked, corrupt=corrupt, columns=["physical_offset"])

    if corrupt == "fail":
        with pytest.raises(CorruptFileError, match="corrupt=skip"):
            found.table()
        return

    rows = found.table()
    if corrupt == "skip":
        assert rows["physical_offset"].to_pylist() == [wanted[0], *wanted[2:]]
        return
    assert rows["physical_offset"].to_pylist() == wanted
    assert [text is not None for text in rows["damage"].to_pylist()] == [False, True, False, False]


# --------------------------------------------------------------------------- damage


def damage(store, offset):
    """Overwrite a part of the magic of the record at a physical offset."""
    base = offset // FILE_SIZE * FILE_SIZE
    with open(store / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(offset - base + 4)
        file.write(b"\xff")


def test_damage_fails_is_left_out_or_becomes_a_row(root, messages, tmp_path):
    store = shutil.copytree(root, tmp_path / "store")
    offsets = [message.physical_offset for message in messages]
    damage(store, offsets[3])

    with pytest.raises(CorruptFileError, match="corrupt=skip"):
        scan(store).table()
    assert offsets_of(scan(store, corrupt="skip")) == offsets[:3] + offsets[4:]
    rows = scan(store, corrupt="report", columns=["physical_offset", "topic"]).table()
    assert rows["physical_offset"].to_pylist() == offsets
    assert [row for row, text in enumerate(rows["damage"].to_pylist()) if text] == [3]
    assert rows["topic"].to_pylist()[3] is None


def test_a_body_that_does_not_match_is_found_where_that_is_asked(root, messages, tmp_path):
    store = shutil.copytree(root, tmp_path / "store")
    hit = next(each for each in messages if len(each.body) > 40)
    path = store / "commitlog" / f"{hit.physical_offset // FILE_SIZE * FILE_SIZE:020d}"
    data = bytearray(path.read_bytes())
    at = data.index(hit.body, hit.physical_offset % FILE_SIZE)
    data[at] ^= 1
    path.write_bytes(data)

    assert scan(store).table().num_rows == len(messages)
    with pytest.raises(CorruptFileError):
        scan(store, check_crc=True).table()


def test_a_stream_through_the_capsule_tells_of_damage(root, messages, tmp_path):
    store = shutil.copytree(root, tmp_path / "store")
    damage(store, messages[-9].physical_offset)

    with pytest.raises((CorruptFileError, pa.ArrowException), match="commitlog"):
        pa.table(scan(store, batch_size=4_000))


# --------------------------------------------------------------------------- times


HOUR = 3_600_000
T0 = 1_767_225_600_000  # 2026-01-01T00:00Z


@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    """A store of 24 hours, a message a minute; a file is about an hour."""
    path = tmp_path_factory.mktemp("timed") / "store"
    now = [T0]
    config = {"commitlog": {"file_size": 16_384}}
    with reput.open(path, plugins=(), config=config, clock=lambda: now[0]) as store:
        for minute in range(24 * 60):
            now[0] = T0 + minute * 60_000
            store.put(reput.Message("T", b"x" * 120, flag=minute))
    return path


def opened_files(monkeypatch):
    """Names of the log files that are read from now on, and how many bytes of each."""
    from reput_arrow.logs.arrowdisk import LocalDisk

    names, sizes = {}, {}
    for method in ("read", "read_into"):
        original = getattr(LocalDisk, method)

        def spied(self, descriptor, what, position, *, original=original):
            name = names.setdefault(descriptor, os.readlink(f"/proc/self/fd/{descriptor}"))
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            size = what if isinstance(what, int) else len(what)
            sizes[os.path.basename(name)] = sizes.get(os.path.basename(name), 0) + size
            return original(self, descriptor, what, position)

        monkeypatch.setattr(LocalDisk, method, spied)
    return sizes


def test_files_outside_of_the_time_range_are_not_read(timed, monkeypatch):
    found = scan(timed, since=T0 + 10 * HOUR, until=T0 + 11 * HOUR, columns=["flag"])
    files = sorted(os.listdir(timed / "commitlog"))
    sizes = opened_files(monkeypatch)

    assert found.table()["flag"].to_pylist() == list(range(600, 660))

    read = [name for name in files if sizes.get(name, 0) > 1_000]
    looked_at = [name for name in files if 0 < sizes.get(name, 0) <= 1_000]
    assert len(files) > 12
    assert 1 <= len(read) <= 4
    assert len(looked_at) <= 12  # the first one, the last one, and those at which halving looks
    assert files.index(read[-1]) - files.index(read[0]) == len(read) - 1


@pytest.mark.parametrize(
    ("since", "until", "first", "last"),
    [
        ("2026-01-01T01:00", "2026-01-01T01:02", 60, 62),
        ("2026-01-01T02:00+01:00", None, 60, 1440),
        (dt.datetime(2026, 1, 1, 23, tzinfo=dt.UTC), None, 1380, 1440),
        (None, dt.datetime(2026, 1, 1, 0, 1), 0, 1),  # noqa: DTZ001 - without a zone it is UTC
        (dt.date(2026, 1, 1), dt.date(2026, 1, 2), 0, 1440),
        (dt.date(2026, 1, 2), None, 0, 0),
        (None, 0, 0, 0),
    ],
)
def test_a_time_range_is_half_open_in_each_form(timed, since, until, first, last):
    found = scan(timed, since=since, until=until, columns=["flag"]).table()

    assert found["flag"].to_pylist() == list(range(first, last))


def test_a_damaged_first_record_hides_no_file(timed, tmp_path):
    store = shutil.copytree(timed, tmp_path / "store")
    for name in sorted(os.listdir(store / "commitlog"))[1::2]:
        with open(store / "commitlog" / name, "r+b") as file:
            file.seek(4)
            file.write(b"\xff")

    found = scan(store, since=T0 + 10 * HOUR, corrupt="skip", columns=["flag"]).table()

    lost = set(range(600, 1440)) - set(found["flag"].to_pylist())
    assert len(lost) <= len(os.listdir(store / "commitlog"))
    assert min(found["flag"].to_pylist()) <= 601


# --------------------------------------------------------------------------- beside a writer


def test_a_scan_beside_a_writer_goes_as_far_as_the_log_went(tmp_path):
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(tmp_path / "store", plugins=(), config=config) as store:
        found = scan(tmp_path / "store", columns=["flag"])
        for number in range(300):
            store.put(reput.Message("T", b"x" * 200, flag=number))
            if number % 100 == 50:
                assert found.table()["flag"].to_pylist() == list(range(number + 1))
        stream = iter(scan(tmp_path / "store", columns=["flag"], batch_size=64))
        first = next(stream)
        store.put(reput.Message("T", b"late", flag=300))
        rest = [flag for batch in stream for flag in batch["flag"].to_pylist()]
        assert first["flag"].to_pylist() + rest == list(range(300))


@pytest.mark.parametrize("case", ["batch", "delay", "ext", "transaction", "trimmed", "v6"])
def test_a_queue_of_rocketmq_is_read_by_its_queue_offsets(golden_store, golden_rows, case):
    pytest.importorskip("reput_consumequeue")
    store = golden_store(case)
    for row in golden_rows(case, "queue")[:6]:
        first, stop = row["min_offset"], row["max_offset"]
        asked = {"topic": row["topic"], "queue": row["queue_id"], "min_queue_offset": first + 1}

        found = offsets_of(scan(store, **asked, max_queue_offset=stop))

        assert found == [unit[0] for unit in row["units"]][1:]


def test_compressed_bodies_are_unpacked_but_for_raw_ones(tmp_path):
    text = b"a body that compresses well " * 400
    with reput.open(tmp_path / "store", plugins=()) as store:
        store.put(reput.Message("T", zlib.compress(text), sys_flag=1))
        store.put(reput.Message("T", text))

    unpacked = scan(tmp_path / "store", columns=["body", "sys_flag"], body="text").table()
    stored = scan(tmp_path / "store", columns=["body"], raw=True).table()

    assert unpacked["body"].to_pylist() == [text.decode()] * 2
    assert unpacked["sys_flag"].to_pylist() == [0, 0]
    assert stored["body"].to_pylist() == [zlib.compress(text), text]


def test_bodies_that_are_large_when_unpacked_come_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("reput_arrow.bodies.UNPACKED_TOTAL_MAX", 250_000)
    with reput.open(tmp_path / "store", plugins=()) as store:
        for _ in range(9):
            store.put(reput.Message("T", zlib.compress(bytes(100_000)), sys_flag=1))

    batches = list(scan(tmp_path / "store", columns=["body"], batch_size=300_000))

    assert [body for batch in batches for body in batch["body"].to_pylist()] == [bytes(100_000)] * 9
    assert all(batch.nbytes <= 300_000 for batch in batches)


def test_a_scan_shows_its_logs_its_limits_and_its_columns(tmp_path):
    found = scan(str(tmp_path), topic=["b", "a"], columns=["topic", "body"])

    assert repr(found).startswith(f"<Scan of {str(tmp_path)!r} topics=['a', 'b']")
    assert repr(found).endswith(" columns=topic, body>")
