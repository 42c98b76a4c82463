"""Durations and sizes, as options take them."""

from __future__ import annotations

import pytest

from reput.plugin import parse_size
from reput_tools.cli.kit.units import parse_duration

HOUR = 3_600_000


@pytest.mark.parametrize("text", ["", "72", "h", "1.5h", "-1h", "1 y", "٣h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "GB", "-1", "1.5", "1.5b", "1 xb", "1e9", "٣"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


def test_quantities_are_read_in_all_their_units():
    assert [parse_duration(text) for text in ("7ms", "1s", "2m", "72h", "1d", "1w")] == [
        7,
        1_000,
        120_000,
        72 * HOUR,
        24 * HOUR,
        168 * HOUR,
    ]
    assert [parse_size(text) for text in ("5", "5B", "1kB", "1KiB", "1.5GB", "2 tib")] == [
        5,
        5,
        1_000,
        1_024,
        1_500_000_000,
        2 << 40,
    ]
