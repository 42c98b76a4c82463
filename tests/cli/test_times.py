from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput_tools.cli.kit.timestamps import Start, format_duration, format_timestamp, parse_start

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Start("earliest")),
        ("latest", Start("latest")),
        ("0", Start("offset", 0)),
        ("1234", Start("offset", 1234)),
        ("-90s", Start("time", NOW - 90_000)),
        ("-1h", Start("time", NOW - 3_600_000)),
        ("-2d", Start("time", NOW - 172_800_000)),
        ("-250ms", Start("time", NOW - 250)),
        ("@1700000000123", Start("time", 1_700_000_000_123)),
        ("2023-11-14T22:13:20Z", Start("time", 1_700_000_000_000)),
        ("2023-11-14 22:13:20.123", Start("time", 1_700_000_000_123)),
        ("2023-11-15T00:13:20+02:00", Start("time", 1_700_000_000_000)),
        ("2023-11-14", Start("time", 1_699_920_000_000)),
    ],
)
def test_every_way_to_say_where_to_begin_is_understood(text: str, start: Start) -> None:
    assert parse_start(text, NOW) == start


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "-1y", "1.5", "@", "@x", "-h", "٣"])
def test_anything_else_is_refused_with_the_ways_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="earliest, latest, a queue offset"):
        parse_start(text, NOW)


@given(st.integers(0, 253_402_300_799_999))
def test_a_time_that_is_shown_can_be_given_back(timestamp: int) -> None:
    assert parse_start(format_timestamp(timestamp), NOW) == Start("time", timestamp)


@pytest.mark.parametrize("timestamp", [1 << 62, -(1 << 62), 253_402_300_800_000])
def test_a_time_that_no_calendar_holds_is_shown_as_its_number(timestamp: int) -> None:
    assert format_timestamp(timestamp) == str(timestamp)


def test_no_time_is_a_dash() -> None:
    assert format_timestamp(None) == "-"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (4.24, "4.2 s"),
        (185.4, "3 min 05 s"),
        (7_260, "2 h 01 min"),
    ],
)
def test_durations_have_the_unit_that_suits_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
