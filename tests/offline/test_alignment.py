"""Rows that only one of two files has are found, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from reput_tools.offline import align

LIMIT = 50


def sequence(count):
    return np.stack([np.arange(count), np.arange(count) * 7 % 11], axis=1).astype(np.int64)


def aligned(own, built):
    def reader(rows):
        return lambda first, count: rows[first : first + count]

    return align(reader(own), len(own), reader(built), len(built), LIMIT)


CHANGES = {
    "nothing": [],
    "one changed": [(500, 1, 1)],
    "the first one": [(0, 1, 0)],
    "one more": [(70_000, 1, 0)],
    "one less": [(70_000, 0, 1)],
    "the last ones": [(99_999, 0, 1)],
    "one for another, twice": [(10, 1, 1), (14, 1, 1)],
    "many more": [(5_000, 1_500, 0)],
    "far apart": [(3, 0, 1), (40_000, 2, 0), (99_990, 1, 1)],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_changes_are_found_where_they_were_made(changes):
    """A change puts so many new rows in the place of so many of the rebuilt file's."""
    built = sequence(100_000)
    own, expected, moved = built, [], 0
    for place, more, less in changes:
        at = place + moved
        fresh = np.full((more, 2), -1) - np.arange(more)[:, None]
        own = np.concatenate([own[:at], fresh, own[at + less :]])
        expected.append((range(at, at + more), range(place, place + less)))
        moved += more - less

    found = aligned(own, built)

    assert [tuple(run) for run in found] == expected


@pytest.mark.parametrize("own", [sequence(9_000)[::-1], sequence(20_000)[5_000:]])
def test_rows_that_cannot_be_aligned_are_left_to_their_places(own):
    assert aligned(own, sequence(20_000)) is None


def test_more_runs_than_wanted_are_left_to_their_places():
    own = sequence(LIMIT * 20)
    own[::15, 1] = -1

    assert aligned(own, sequence(LIMIT * 20)) is None
