"""Options: what people write is understood, or refused in words that help."""

from __future__ import annotations

import datetime as dt
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_arrow.textoptions import texts_of
from reput_spark import ReadOptions, SparkReputError, code_of
from reput_spark.reader.options import OPTIONS


def test_without_options_everything_is_read():
    options = ReadOptions.parse({"path": "store"})

    assert options == ReadOptions(paths=("store",))
    assert options.split_size == 256 << 20
    assert options.corrupt == "fail"


def test_all_options_at_once():
    options = ReadOptions.parse(
        {
            "paths": '["a", "b"]',
            "TOPIC": "orders, payments",
            "queue_id": "0,3",
            "min_offset": "1",
            "max_offset": "2",
            "min_queue_offset": "3",
            "max_queue_offset": "4",
            "start": "5",
            "end": "-6",
            "corrupt": "Collect",
            "check_crc": "TRUE",
            "split_size": "65536",
            "batch_rows": "7",
            "columns": "topic, body",
            "key": "k 1",
            "pruning": "False",
        }
    )

    assert options == ReadOptions(
        paths=("a", "b"),
        topics=frozenset({"orders", "payments"}),
        queue_ids=frozenset({0, 3}),
        min_offset=1,
        max_offset=2,
        min_queue_offset=3,
        max_queue_offset=4,
        start_timestamp=5,
        end_timestamp=-6,
        corrupt="collect",
        check_crc=True,
        split_size=65_536,
        batch_rows=7,
        is_queued=True,
        columns=("topic", "body"),
        key="k 1",
        prunes=False,
    )


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1769860800123", 1_769_860_800_123),
        ("-1", -1),
        ("2026-01-31T12:00:00.123+00:00", 1_769_860_800_123),
        ("2026-01-31T12:00:00.122001", 1_769_860_800_123),  # the first ms that is not before
        ("2026-01-31T13:00:00.123+01:00", 1_769_860_800_123),
        ("2026-01-31 12:00", 1_769_860_800_000),
        ("2026-01-31", 1_769_817_600_000),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
    ],
)
def test_times_are_ms_or_iso_and_utc_without_a_zone(text, ms):
    assert ReadOptions.parse({"start": text}).start_timestamp == ms


@given(st.integers(-(1 << 43), 1 << 43))
def test_every_ms_has_an_iso_time_that_means_it(ms):
    time = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)

    assert ReadOptions.parse({"end": time.isoformat()}).end_timestamp == ms


def test_whole_files_are_asked_for_by_name():
    assert ReadOptions.parse({"split_size": "File"}).split_size is None


def test_an_unknown_option_is_refused_with_the_one_that_was_meant():
    with pytest.raises(SparkReputError, match=r"'topci'\. 'topic' was meant") as failure:
        ReadOptions.parse({"topci": "orders"})

    assert code_of(failure.value) == "OPTION"
    assert "max_offset" in str(failure.value)


def test_options_of_somebody_else_are_passed_over():
    assert ReadOptions.parse({"MaxBytes": "1"}, ["max_bytes", "maxbytes"]).paths == ()
    with pytest.raises(SparkReputError, match="'max_bytes' was meant"):
        ReadOptions.parse({"max_byte": "1"}, ["max_bytes"])


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("topic", " , ", "one or more"),
        ("queue_id", "one", "an integer"),
        ("queue_id", "-1", "0 to 2147483647"),
        ("queue_id", "2147483648", "0 to 2147483647"),
        ("min_offset", "-1", "0 to"),
        ("max_offset", str(1 << 63), "0 to 9223372036854775807"),
        ("max_queue_offset", "1.5", "an integer"),
        ("start", "yesterday", "ms since the epoch"),
        ("start", "²", "ms since the epoch"),
        ("end", str(1 << 64), "ms since the epoch"),
        ("corrupt", "ignore", "fail or skip or collect"),
        ("check_crc", "yes", "false or true"),
        ("split_size", "1", "65536 to 9223372036854775807 expected, or 'file'"),
        ("batch_rows", "0", "1 to"),
        ("paths", "a,b", "a JSON list"),
        ("paths", "[1]", "a JSON list of paths"),
        ("filter", "a >", "filter"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_refused(name, value, expected):
    if name == "filter":
        pytest.importorskip("reput_filter")
    with pytest.raises(SparkReputError, match="REPUT_OPTION") as failure:
        ReadOptions.parse({name: value})

    assert expected in str(failure.value)
    assert f"'{name}'" in str(failure.value)


def test_options_go_to_executors_and_come_back_the_same():
    pytest.importorskip("reput_filter")
    for kind, text in (("SQL92", "weight > 5"), ("TAG", "A || B")):
        options = ReadOptions.parse({"path": "p", "filter": text, "filter_kind": kind})

        again = pickle.loads(pickle.dumps(options))

        assert again == options


@given(st.dictionaries(st.sampled_from(sorted(OPTIONS)) | st.text(max_size=8), st.text(max_size=8)))
def test_whatever_is_given_is_taken_or_refused_with_the_code(given_options):
    code = None
    try:
        ReadOptions.parse(given_options)
    except SparkReputError as error:
        code = code_of(error)

    assert code in (None, "OPTION")


def test_values_are_written_as_people_have_them():
    found = texts_of(
        {
            "topic": ["a", "b"],
            "queue_id": range(3),
            "check_crc": True,
            "pruning": False,
            "min_offset": 5,
            "start": dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
            "end": None,
        }
    )

    assert found == {
        "topic": "a,b",
        "queue_id": "0,1,2",
        "check_crc": "true",
        "pruning": "false",
        "min_offset": "5",
        "start": "2026-01-31T00:00:00+00:00",
    }


def test_an_error_keeps_its_code_when_only_its_text_is_left():
    error = SparkReputError("DAMAGED", "a, byte 5: b")

    assert str(error) == "[REPUT_DAMAGED] a, byte 5: b"
    assert code_of(RuntimeError(f"Traceback …\n{error}\n")) == "DAMAGED"
    assert code_of(RuntimeError("something else")) is None
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.reason) == (error.code, error.reason)
