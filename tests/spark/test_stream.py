"""A stream out of a log, without Spark: offsets, limits, growth, files that go."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import pickle
import shutil

import pytest
from dledgerlog import DLedgerLog
from sparkstores import FILE_SIZE, fill, messages_of

import reput
from reput_arrow import schema_of
from reput_spark import SparkReputError
from reput_spark.reader.stream import growinglog as streamlogs
from reput_spark.reader.stream import planning as streamplanning
from reput_spark.reader.stream.options import STREAM_OPTIONS, StreamOptions
from reput_spark.reader.stream.planning import LogStream, read_stream_task

COLUMNS = schema_of(["topic", "physical_offset", "body"], unit="us")
CONFIG = {"commitlog": {"file_size": FILE_SIZE}}


def options_of(*paths, **options):
    given = {name: str(value) for name, value in options.items()}
    return StreamOptions.parse({"paths": json.dumps([str(path) for path in paths]), **given})


def stream_of(*paths, **options):
    return LogStream(options_of(*paths, **options))


def places(offset):
    """Physical offsets, in the order of the logs."""
    return list(offset["phy"].values())


def read(stream, start, end):
    """Physical offsets of a batch's rows."""
    tasks = pickle.loads(pickle.dumps(stream.plan(start, end)))
    return [offset for task in tasks for offset in read_task(stream, task)]


def read_task(stream, task):
    found = []
    for batch in read_stream_task(task, stream.options, COLUMNS):
        assert batch.schema == COLUMNS
        found += batch.column("physical_offset").to_pylist()
    return found


def batches_of(stream, start=None, **limits):
    """Rows of batch after batch, until there is nothing more."""
    start = stream.initial() if start is None else start
    found = []
    while (end := stream.latest(start, **limits)) != start:
        found.append(read(stream, start, end))
        start = end
    return found


def offsets_in(root):
    return [each.physical_offset for each in messages_of(root)]


@pytest.fixture
def store(tmp_path):
    """A store of some files, of which tests may make what they want."""
    fill(tmp_path / "store", 120)
    return tmp_path / "store"


def first_files(root, count):
    """The oldest files of a log."""
    return sorted((root / "commitlog").iterdir())[:count]


# --------------------------------------------------------------------------- options


def test_options_of_a_read_are_options_of_a_stream():
    found = StreamOptions.parse({"path": "/log", "topic": "a,b", "check_crc": "true"})

    assert found.read.topics == {"a", "b"}
    assert found.read.check_crc
    assert (found.starting, found.max_bytes, found.fail_on_data_loss) == ("earliest", None, True)


@pytest.mark.parametrize(
    ("text", "starting", "timestamp"),
    [
        ("Latest", "latest", None),
        ("4096", 4096, None),
        ("2026-01-31T12:00+01:00", "earliest", 1_769_857_200_000),
    ],
)
def test_a_stream_starts_where_it_is_told(text, starting, timestamp):
    found = StreamOptions.parse({"path": "/log", "starting": text})

    assert (found.starting, found.starting_timestamp) == (starting, timestamp)


@pytest.mark.parametrize("name", ["failOnDataLoss", "fail_on_data_loss"])
def test_losses_are_passed_over_when_that_is_asked_for(name):
    assert not StreamOptions.parse({"path": "/log", name: "false"}).fail_on_data_loss


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("starting", "soon", "earliest, latest"),
        ("starting", "-1", "earliest, latest"),
        ("max_bytes_per_batch", "0", "1 to "),
        ("max_records_per_batch", "many", "1 to "),
        ("failOnDataLoss", "maybe", "true or false"),
        ("pushdown", "true", "use the options topic"),
        ("startin", "latest", "'starting' was meant?"),
        ("topic", "", "topic"),
    ],
)
def test_a_wrong_option_is_refused(name, value, said):
    with pytest.raises(SparkReputError, match=r"^\[REPUT_OPTION\]") as caught:
        StreamOptions.parse({"path": "/log", name: value})

    assert said in str(caught.value)


def test_names_of_options_have_no_capitals():
    assert all(name == name.lower() for name in (*STREAM_OPTIONS, *StreamOptions.names()))


# --------------------------------------------------------------------------- offsets


def test_a_stream_reads_all_that_is_there_and_then_what_comes(store):
    stream = stream_of(store)
    first = batches_of(stream)
    end = stream.latest()

    fill(store, 40, 120)  # over the ends of some files
    second = batches_of(stream, end)

    assert [len(first), len(second)] == [1, 1]
    assert first[0] + second[0] == offsets_in(store)
    assert batches_of(stream, stream.latest(end)) == []


def test_an_offset_is_a_plain_dictionary_that_names_each_log_by_its_path(store, tmp_path):
    fill(tmp_path / "another", 3)
    stream = stream_of(store, tmp_path / "another")

    offset = stream.latest()

    assert list(offset["phy"]) == [f"{tmp_path}/another/commitlog", f"{store}/commitlog"]
    assert json.dumps(json.loads(json.dumps(offset))) == json.dumps(offset)
    assert stream_of(store / "commitlog", tmp_path / "another").latest() == offset


SPELLINGS = {
    "store": "{0}/store",
    "slash": "{0}/store/",
    "log": "{0}/store/commitlog",
    "URI": "file://{0}/store",
    "Hadoop's": "file:{0}/store",
    "link": "{0}/link",
    "above": "{0}/link/../store",
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_another_spelling_of_a_path_is_the_same_log(store, tmp_path, spelled):
    os.symlink(store, tmp_path / "link")
    end = stream_of(store).latest()
    assert list(end["phy"]) == [f"{store}/commitlog"]

    again = stream_of(spelled.format(tmp_path))
    again.plan(end, end)

    assert again.latest() == again.latest(end) == end


@pytest.mark.parametrize("key", ["file://{0}/store/commitlog", "{0}/link/commitlog"])
def test_an_offset_with_another_spelling_goes_on_where_it_is(store, tmp_path, key):
    """Releases before have written paths as they were spelled."""
    os.symlink(store, tmp_path / "link")
    end = stream_of(store).latest()
    old = {"phy": {key.format(tmp_path): places(end)[0]}}

    assert stream_of(store).latest(old) == {"phy": end["phy"]}
    assert stream_of(tmp_path / "link").plan(old, end) == []


def test_one_file_of_a_log_has_one_name_as_well(store, tmp_path):
    os.symlink(store, tmp_path / "link")
    name = first_files(store, 1)[0].name

    end = stream_of(tmp_path / "link" / "commitlog" / name).latest()

    assert list(end["phy"]) == [f"{store}/commitlog/{name}"]


def test_a_log_that_was_moved_is_not_streamed_again(store, tmp_path):
    end = stream_of(store).latest()
    os.rename(store, tmp_path / "moved")

    with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*moved") as caught:
        stream_of(tmp_path / "moved").latest(end)

    assert f"{store}/commitlog" in str(caught.value)
    going_on = stream_of(tmp_path / "moved", fail_on_data_loss="false")
    later = going_on.latest(end)
    assert read(going_on, end, later) == offsets_in(tmp_path / "moved")
    assert stream_of(tmp_path / "moved").latest(later) == later  # it is known now


def test_a_batch_is_the_same_when_it_is_planned_again(store):
    before = stream_of(store, split_size=65_536)
    start, end = before.initial(), before.latest()
    rows = before.plan(start, end)

    fill(store, 40, 120)
    again = stream_of(store, split_size=65_536)

    assert again.plan(start, end) == rows


def test_a_split_of_the_user_s_size_is_a_task(store):
    fill(store, 800, 120)
    stream = stream_of(store, split_size=65_536)
    start, end = stream.initial(), stream.latest()

    assert len(stream.plan(start, end)) >= 3
    assert read(stream, start, end) == offsets_in(store)


@pytest.mark.parametrize("corrupt", ["skip", "collect"])
def test_who_passes_over_damage_reads_whole_files(store, corrupt):
    stream = stream_of(store, corrupt=corrupt)
    start, end = stream.initial(), stream.latest()
    offsets = offsets_in(store)
    middle = {"phy": dict.fromkeys(start["phy"], offsets[7])}

    tasks = stream.plan(middle, end)

    assert [task.split.start_offset % FILE_SIZE for task in tasks[1:]] == [0] * (len(tasks) - 1)
    assert read(stream, middle, end) == offsets[7:]


def test_the_user_s_conditions_hold_for_each_batch(store):
    stream = stream_of(store, topic="topic-1", queue_id="0,1")

    found = batches_of(stream, max_records=25)

    wanted = [
        each.physical_offset
        for each in messages_of(store)
        if each.topic == "topic-1" and each.queue_id < 2
    ]
    assert list(itertools.chain(*found)) == wanted


def test_a_log_that_comes_to_be_is_read_from_its_first_byte(store, tmp_path):
    os.rename(store, tmp_path / "stores")
    (tmp_path / "brokers").mkdir()
    os.rename(tmp_path / "stores", tmp_path / "brokers" / "a")
    stream = stream_of(tmp_path / "brokers", starting="latest")
    start = stream.initial()
    fill(tmp_path / "brokers" / "b", 5)

    end = stream.latest(start)

    assert read(stream, start, end) == offsets_in(tmp_path / "brokers" / "b")


def test_a_store_without_a_message_is_waited_for(tmp_path):
    with reput.open(tmp_path / "store", plugins=(), config=CONFIG):
        stream = stream_of(tmp_path / "store")
        start = stream.initial()
    assert start == stream.latest(start) == {"phy": {}}

    fill(tmp_path / "store", 3)

    assert read(stream, start, stream.latest(start)) == offsets_in(tmp_path / "store")


def test_a_directory_without_a_log_is_an_error(tmp_path):
    with pytest.raises(SparkReputError, match=r"^\[REPUT_NO_LOG\]"):
        stream_of(tmp_path).initial()


def test_a_query_that_begins_at_the_end_of_dledger_needs_its_checkpoint(store, tmp_path):
    ledger = DLedgerLog(tmp_path / "node")
    for message in messages_of(store):
        ledger.append(message.record)
    (ledger.write().folder / "checkpoint").unlink()

    for option in ({"starting": "latest"}, {"starting": 500}, {"starting": "2020-01-01T00:00:00Z"}):
        with pytest.raises(SparkReputError, match="checkpoint does not name"):
            stream_of(ledger.root, **option).initial()
    stream = stream_of(ledger.root)
    assert stream.latest(stream.initial()) == stream.initial()


def test_entries_of_dledger_are_streamed_once_they_are_committed(store, tmp_path):
    ledger = DLedgerLog(tmp_path / "node", term=0)
    for message in messages_of(store):
        ledger.append(message.record)
    stream = stream_of(ledger.write(-1).root)
    start, found = stream.initial(), []
    for committed in (-1, 30, 30, 119):
        ledger.write(committed)
        end = stream.latest(start)
        found.append(read(stream, start, end))
        start = end
    assert found == [[], ledger.offsets[:31], [], ledger.offsets[31:]]

    with reput.open(ledger.root, "w", plugins=["consumequeue"]) as written:
        for number in range(3):  # the index of DLedger has no units of these
            written.put(reput.Message("orders", b"%d" % number))
        early = stream.latest(start)
    end = stream.latest(start)
    with reput.open(ledger.root, "r", plugins=[]) as reader:
        added = [int(row) for batch in reader.scan() for row in batch.physical_offset][120:]

    assert early == start
    assert read(stream, start, end) == added
    assert len(added) == 3
    assert batches_of(stream, max_records=50) == [
        ledger.offsets[:50], ledger.offsets[50:100], [*ledger.offsets[100:], *added]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"phy": 5},
        {"phy": {"a": "b"}},
        {"phy": {"a": -1}},
        {"phy": {}, "last": [1]},
        {"phy": {}, "last": {"a": [1, 2]}},
        {"phy": {}, "last": {"a": [1, 2, "x"]}},
        {"phy": {}, "from": {"a": {"topic": {"0": -1}}}},
        {"phy": {}, "from": {"a": {"topic": {"x": 1}}}},
    ],
)
def test_an_offset_of_another_source_is_refused(store, offset):
    with pytest.raises(SparkReputError, match="checkpoint"):
        stream_of(store).plan(offset, offset)


# --------------------------------------------------------------------------- where it begins


def test_a_stream_that_starts_at_the_latest_reads_what_comes_then(store):
    stream = stream_of(store, starting="latest")
    start = stream.initial()
    assert stream.latest() == start

    fill(store, 5, 120)

    assert read(stream, start, stream.latest()) == offsets_in(store)[120:]


def test_a_stream_starts_at_the_record_at_an_offset_or_behind_it(store):
    offsets = offsets_in(store)

    assert places(stream_of(store, starting=offsets[70]).initial()) == [offsets[70]]
    assert places(stream_of(store, starting=offsets[70] + 1).initial()) == [offsets[71]]
    assert places(stream_of(store, starting=offsets[-1] + 1).initial()) == places(
        stream_of(store).latest()
    )


def test_a_stream_starts_at_a_time(tmp_path):
    times = iter(range(1_000_000, 1_000_000 + 120 * 1_000, 1_000))
    now = [0]
    with reput.open(
        tmp_path, plugins=(), config=CONFIG, clock=lambda: now[0], threads=False
    ) as store:
        for number in range(120):
            now[0] = next(times)
            store.put(reput.Message("T", b"%d" % number * 100))
    offsets = offsets_in(tmp_path)

    def start(ms):
        time = dt.datetime.fromtimestamp(ms / 1_000, dt.UTC).isoformat()
        return places(stream_of(tmp_path, starting=time).initial())[0]

    assert start(0) == 0
    assert [start(1_000_000 + number * 1_000) for number in range(120)] == offsets
    assert start(1_000_001) == offsets[1]
    assert start(2_000_000) == places(stream_of(tmp_path).latest())[0]


def test_an_offset_that_the_log_does_not_have_is_refused(store):
    with pytest.raises(SparkReputError, match=r"^\[REPUT_OPTION\].*latest at the end"):
        stream_of(store, starting=1 << 40).initial()
    first_files(store, 1)[0].unlink()
    with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*earliest begins"):
        stream_of(store, starting=5).initial()


def test_one_offset_is_not_for_two_logs(store, tmp_path):
    fill(tmp_path / "another", 3)

    with pytest.raises(SparkReputError, match="2 logs"):
        stream_of(store, tmp_path / "another", starting=0).initial()


def queue_rows(store, topic, queue_id, first):
    return [
        each.physical_offset
        for each in messages_of(store)
        if (each.topic, each.queue_id) == (topic, queue_id) and each.queue_offset >= first
    ]


def test_a_stream_starts_at_queue_offsets_and_stays_with_their_topics(store):
    stream = stream_of(store, startingOffsets='{"topic-1": {"0": 3, "1": 10000, "2": 10000}}')
    start, end = stream.initial(), stream.latest()
    assert list(start["from"].values()) == [{"topic-1": {"0": 3, "1": 10_000, "2": 10_000}}]

    assert read(stream, start, end) == queue_rows(store, "topic-1", 0, 3)

    fill(store, 48, 120)
    later = stream_of(store, starting_offsets='{"topic-1": {"0": 0}}').latest(end)
    again = stream_of(store, starting_offsets='{"topic-1": {"0": 0}}')
    known = queue_rows(store, "topic-1", 0, 3)
    assert read(again, end, later) == [each for each in known if each >= places(end)[0]]


def test_a_stream_starts_where_a_group_was_when_it_began(store):
    config = store / "config"
    config.mkdir()
    (config / "consumerOffset.json").write_text(
        '{"offsetTable": {"topic-2@g": {0: 4, 1: 99, 2: 99}}}'
    )
    stream = stream_of(store, group="g")
    start = stream.initial()

    # The group goes on; a query that is started again does not skip what it has not streamed yet.
    (config / "consumerOffset.json").write_text(
        '{"offsetTable": {"topic-2@g": {0: 9, 1: 99, 2: 99}}}'
    )
    again = stream_of(store, group="g")

    assert read(again, start, again.latest(start)) == queue_rows(store, "topic-2", 0, 4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"starting_offsets": "{}", "starting": "latest"}, "say where the query begins"),
        ({"group": "g", "starting": "latest"}, "say where the query begins"),
        ({"ending_offsets": '{"a": {"0": 1}}'}, "no end"),
        ({"group": "g", "starting_offsets": "{}"}, "says where queues begin"),
        ({"starting_offsets": "[1]"}, "JSON as"),
        ({"starting_offsets": '{"a": {"0": -1}}'}, "JSON as"),
        ({"starting_offsets": '{"a": {"x": 1}}'}, "JSON as"),
        ({"starting_offsets": '{"a": [1]}'}, "JSON as"),
    ],
)
def test_wrong_queue_offsets_are_refused(options, said):
    with pytest.raises(SparkReputError, match=r"^\[REPUT_OPTION\]") as caught:
        StreamOptions.parse({"path": "/log", **options})

    assert said in str(caught.value)


# --------------------------------------------------------------------------- limits


@pytest.mark.parametrize("limit", [1, 300, 5_000, FILE_SIZE, FILE_SIZE * 2 + 7])
def test_a_batch_has_as_many_bytes_as_it_may_have(store, limit):
    found = batches_of(stream_of(store), max_bytes=limit)

    assert list(itertools.chain(*found)) == offsets_in(store)
    assert all(rows[-1] - rows[0] < limit for rows in found if rows)
    assert len(found) >= places(stream_of(store).latest())[0] // (limit + 1_000)


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_a_batch_has_as_many_records_as_it_may_have(store, limit):
    found = batches_of(stream_of(store), max_records=limit)

    assert list(itertools.chain(*found)) == offsets_in(store)
    assert {len(rows) for rows in found[:-1]} <= {limit}


def test_logs_share_what_a_batch_may_have(store, tmp_path):
    fill(tmp_path / "short", 5)
    stream = stream_of(store, tmp_path / "short")

    end = stream.latest(max_bytes=20_000)

    short, long = sorted(places(end))
    assert short == places(stream_of(tmp_path / "short").latest())[0]
    assert 10_000 < long <= 20_000 - short
    assert sum(len(rows) for rows in batches_of(stream, max_records=9)) == 125


def test_who_is_not_told_the_start_goes_on_where_the_last_plan_ended(store):
    stream = stream_of(store)
    first = stream.latest(max_records=10)
    assert stream.latest(max_records=10) == first  # nothing was planned yet

    stream.plan(stream.initial(), first)

    assert read(stream, first, stream.latest(max_records=10)) == offsets_in(store)[10:20]
    # How Spark 4.1 tells a query that goes on where it is.
    again = stream_of(store)
    again.plan(first, first)
    assert read(again, first, again.latest(max_records=10)) == offsets_in(store)[10:20]


def test_a_run_that_ends_ends_where_the_log_did_when_it_began(store, tmp_path):
    stream = stream_of(store)
    target = stream.now()
    fill(store, 20, 120)

    assert stream.latest(target=target) == target
    assert stream.latest(target, target=target) == target
    assert places(stream.latest(max_records=5, target=target)) == [offsets_in(store)[5]]


# --------------------------------------------------------------------------- the end of a log


def test_a_record_that_is_being_written_is_not_read_yet(store):
    offsets = offsets_in(store)
    end = places(stream_of(store).latest())[0]
    base = offsets[-1] // FILE_SIZE * FILE_SIZE
    path = store / "commitlog" / f"{base:020d}"
    whole = path.read_bytes()
    for cut in range(offsets[-1] - base, end - base, 7):
        torn = bytearray(whole)
        torn[cut:] = bytes(len(whole) - cut)
        path.write_bytes(torn)

        assert places(stream_of(store).latest()) == [offsets[-1]]


def test_a_file_that_is_made_ahead_of_need_holds_nothing(store):
    before = stream_of(store).latest()
    last = sorted((store / "commitlog").iterdir())[-1]
    ahead = store / "commitlog" / f"{int(last.name) + FILE_SIZE:020d}"
    ahead.write_bytes(bytes(FILE_SIZE))

    assert stream_of(store).latest() == before


def test_a_stream_goes_on_over_the_end_of_a_file(tmp_path):
    with reput.open(tmp_path, plugins=(), config=CONFIG) as store:
        stream = stream_of(tmp_path)
        start, found = {"phy": {}}, []
        for number in range(60):
            store.put(reput.Message("T", b"%d" % number * 300))
            end = stream.latest(start)
            found += read(stream, start, end)
            start = end
        assert store.log.file_count > 2

    assert found == offsets_in(tmp_path)


def test_a_log_that_was_cut_is_noticed(store):
    stream = stream_of(store)
    end = stream.latest()
    offsets = offsets_in(store)
    base = offsets[-1] // FILE_SIZE * FILE_SIZE
    with open(store / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(offsets[-3] - base)
        file.write(bytes(FILE_SIZE - (offsets[-3] - base)))

    with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*was cut"):
        stream.latest(end)
    # How Spark 4.2 begins a query that ends by itself.
    again = stream_of(store)
    with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*was cut"):
        again.latest(end, target=again.now())


@pytest.mark.parametrize("made_anew", [0, 10])
def test_a_log_whose_last_files_went_is_noticed(store, made_anew):
    stream = stream_of(store)
    end = stream.latest()
    assert places(end)[0] > FILE_SIZE
    if made_anew:
        shutil.rmtree(store)
        fill(store, made_anew)
    else:
        for path in sorted((store / "commitlog").iterdir())[1:]:
            path.unlink()

    for each in (stream, stream_of(store)):
        with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*was cut"):
            each.latest(end)
        with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*was cut"):
            each.latest(end, target=each.now())


def made_again(store):
    """Another log at the same place, longer than the one that was there."""
    shutil.rmtree(store)
    fill(store, 300, 1_000)


def cut_and_filled(store):
    """The same log, whose writer lost its last records and went on with others."""
    base = offsets_in(store)[-3] // FILE_SIZE * FILE_SIZE
    place = offsets_in(store)[-3] - base
    with open(store / "commitlog" / f"{base:020d}", "r+b") as file:
        file.seek(place)
        file.write(bytes(FILE_SIZE - place))
    fill(store, 30, 1_000)


@pytest.mark.parametrize("change", [made_again, cut_and_filled])
def test_another_log_that_is_longer_is_noticed(store, change):
    start, end = stream_of(store).initial(), stream_of(store).latest()
    change(store)

    for ask in (lambda stream: stream.latest(end), lambda stream: stream.plan(start, end)):
        with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*recreated.*starting"):
            ask(stream_of(store))


def test_an_offset_of_an_earlier_release_knows_no_last_record(store):
    end = stream_of(store).latest()
    old = {"phy": end["phy"]}
    fill(store, 10, 120)

    later = stream_of(store).latest(old)

    assert read(stream_of(store), old, later) == offsets_in(store)[120:]
    assert [each[0] for each in later["last"].values()] == [offsets_in(store)[-1]]


def test_who_passes_over_losses_goes_on_in_another_log(store):
    end = stream_of(store).latest(max_records=1)
    offsets = offsets_in(store)
    (key,) = end["last"]
    end["last"][key][2] += 1

    assert (
        read(stream_of(store, fail_on_data_loss="false"), end, stream_of(store).latest())
        == (offsets[1:])
    )


def test_a_last_record_whose_file_was_removed_is_not_missed(store):
    end = stream_of(store).latest(max_bytes=FILE_SIZE)
    assert end["last"]
    offsets = offsets_in(store)
    first_files(store, 1)[0].unlink()
    end["phy"] = dict.fromkeys(end["phy"], FILE_SIZE)

    later = stream_of(store).latest(end)

    assert read(stream_of(store), end, later) == [each for each in offsets if each >= FILE_SIZE]


@pytest.mark.parametrize("size", [40, 100_000, 3_000_000])
def test_the_last_record_is_found_whatever_its_size(tmp_path, size):
    config = {"commitlog": {"file_size": 16 << 20}}
    with reput.open(tmp_path, plugins=(), config=config) as store:
        for number in range(3):
            placed = store.put(reput.Message("T", b"%d" % number * size))
        view = store.get(placed.msg_id)

    (last,) = stream_of(tmp_path).latest()["last"].values()

    assert last == [placed.physical_offset, view.store_timestamp, view.body_crc]


def test_a_log_that_ends_with_a_file_is_not_cut(store):
    (key,) = stream_of(store).latest()["phy"]
    for path in sorted((store / "commitlog").iterdir())[1:]:
        path.unlink()
    end = {"phy": {key: FILE_SIZE}}

    assert stream_of(store).latest(end) == end


def test_a_look_begins_where_the_last_one_ended(store):
    """Damage that was passed over long ago would show otherwise."""
    end = stream_of(store).latest()
    for path in first_files(store, 1):
        path.write_bytes(b"\7" * FILE_SIZE)

    assert stream_of(store).latest(end) == end


def test_what_small_batches_lag_behind_is_not_looked_at_for_each_of_them(store, monkeypatch):
    looked = []

    def noted(log, position):
        looked.append(position)
        return streamlogs.end_behind(log, position)

    monkeypatch.setattr(streamplanning, "end_behind", noted)
    stream = stream_of(store)
    end = places(stream.now())[0]

    found = batches_of(stream, max_records=10)

    assert len(found) == 12
    assert looked[0] == 0
    assert set(looked[1:]) == {end}


# --------------------------------------------------------------------------- files that go


def test_files_that_went_before_they_were_planned_are_an_error(store):
    stream = stream_of(store)
    start, end = stream.initial(), stream.latest()
    first_files(store, 1)[0].unlink()

    with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\].*fail_on_data_loss=false"):
        stream.plan(start, end)


def test_files_that_went_before_they_were_planned_are_passed_over(store):
    stream = stream_of(store, fail_on_data_loss="false")
    start, end = stream.initial(), stream.latest()
    left = [offset for offset in offsets_in(store) if offset >= FILE_SIZE]
    first_files(store, 1)[0].unlink()

    assert read(stream, start, end) == left
    assert batches_of(stream, start, max_records=11)[0] == left[:11]


@pytest.mark.parametrize("corrupt", ["fail", "skip"])
@pytest.mark.parametrize("gone", [1, 2, 100])
def test_files_that_went_before_they_were_read(store, gone, corrupt):
    failing = stream_of(store, corrupt=corrupt)
    going_on = stream_of(store, fail_on_data_loss="false", corrupt=corrupt)
    start, end = failing.initial(), failing.latest()
    tasks, offsets = failing.plan(start, end), offsets_in(store)
    files = first_files(store, gone)
    for path in files:
        path.unlink()

    with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\]"):
        read_task(failing, tasks[0])
    found = [offset for task in tasks for offset in read_task(going_on, task)]
    assert found == [offset for offset in offsets if offset >= len(files) * FILE_SIZE]


@pytest.mark.parametrize("corrupt", ["fail", "skip"])
@pytest.mark.parametrize("is_error", [True, False])
def test_files_that_go_while_they_are_read(store, is_error, corrupt, monkeypatch):
    """The second file is gone when the first one has been read, and the third is there."""
    stream = stream_of(store, fail_on_data_loss=is_error, corrupt=corrupt, split_size=1 << 20)
    whole = stream_of(store, split_size=1 << 20)  # one task, over all files
    (task,) = whole.plan(stream.initial(), stream.latest())
    offsets = offsets_in(store)
    rows = read_stream_task(task, stream.options, COLUMNS)
    found = next(rows).column("physical_offset").to_pylist()
    for path in first_files(store, 2):
        path.unlink()

    if is_error:
        with pytest.raises(SparkReputError, match=r"^\[REPUT_DATA_LOSS\]"):
            list(rows)
        return
    for batch in rows:
        found += batch.column("physical_offset").to_pylist()
    assert found == [each for each in offsets if not FILE_SIZE <= each < 2 * FILE_SIZE]


def test_damage_is_not_taken_for_files_that_went(store):
    stream = stream_of(store, fail_on_data_loss="false")
    start, end = stream.initial(), stream.latest()
    with open(first_files(store, 1)[0], "r+b") as file:
        file.seek(500)
        file.write(b"\7" * 2_000)

    with pytest.raises(SparkReputError, match=r"^\[REPUT_DAMAGED\]"):
        read(stream, start, end)


@pytest.mark.parametrize("is_error", [True, False])
def test_a_log_that_went_wholly(store, tmp_path, is_error):
    fill(tmp_path / "stays", 4)
    stream = stream_of(store, tmp_path / "stays", fail_on_data_loss=is_error)
    start, end = stream.initial(), stream.latest()
    shutil.rmtree(store / "commitlog")
    (store / "commitlog").mkdir()

    if is_error:
        with pytest.raises(SparkReputError, match="not there any more"):
            stream.plan(start, end)
    else:
        assert read(stream, start, end) == offsets_in(tmp_path / "stays")
        assert stream.latest(end) == end
