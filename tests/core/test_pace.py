"""Which plugin is slow, and how long its thread rests, by what it needs to keep up."""

from __future__ import annotations

import pytest

from reput.dispatch.runtime.pluginstate import LiveFigures
from reput.dispatch.runtime.readgroup import CAUGHT_UP, LONGEST_PAUSE, Throttle

RATE = 3_000_000  # bytes of the log a second
WINDOW = 1 << 20


def run(need, seconds=60.0, backlog=0):
    """Work beside a log that grows; return the lateness after each round, and the share of work.

    Args:
        need: share of a processor with which the plugin keeps up.
        seconds: how long.
        backlog: bytes behind at the beginning.
    """
    pace, now, worked, late = Throttle(), 0.0, 0.0, []
    behind = float(backlog)
    while now < seconds:
        size = min(behind, WINDOW)
        used = size * need / RATE + 1e-4
        behind += used * RATE - size
        pause = pace.pause(used, int(behind))
        behind += pause * RATE
        now, worked = now + used + pause, worked + used
        late.append(behind / RATE)
    return late, worked / now


@pytest.mark.parametrize("need", [0.02, 0.05, 0.1, 0.25, 0.4, 0.45])
def test_a_plugin_that_can_keep_up_with_half_a_processor_does(need):
    late, share = run(need)

    assert max(late[len(late) // 2 :]) < 2 * LONGEST_PAUSE + 0.1
    assert need - 0.02 < share < max(need + 0.02, 0.06)


@pytest.mark.parametrize("need", [0.25, 0.4])
def test_it_also_catches_up(need):
    late, _ = run(need, seconds=600.0, backlog=100 * RATE)

    assert late[0] > 99
    assert late[-1] < 2 * LONGEST_PAUSE + 0.1


@pytest.mark.parametrize("need", [0.6, 2.0])
def test_a_plugin_that_cannot_keep_up_leaves_half_a_processor(need):
    late, share = run(need)

    assert late[-1] > 5
    assert share < 0.55


def test_a_plugin_that_keeps_up_takes_a_twentieth():
    pace = Throttle()

    assert [pace.pause(0.001, 0) for _ in range(3)] == [0.019] * 3
    assert pace.pause(0.1, 0) == LONGEST_PAUSE
    assert pace.pause(0.4, 0) == 0.4
    assert pace.pause(30.0, 0) == 4 * LONGEST_PAUSE


def test_rests_shrink_while_it_is_behind_and_grow_when_it_has_caught_up():
    pace = Throttle()

    behind = [1 << 20] * 3 + [0, CAUGHT_UP, CAUGHT_UP + 1]
    times = [pace.pause(0.001, each) / 0.001 for each in behind]

    assert times == pytest.approx([9.5, 4.75, 2.375, 4.75, 9.5, 4.75])


@pytest.mark.parametrize(
    ("messages", "waited", "is_slow"),
    [(10, 0.003, True), (10, 0.001, False), (10_000, 0.009, False), (10_000, 0.011, True)],
)
def test_a_plugin_that_waits_is_slow_unless_its_batches_are_large(messages, waited, is_slow):
    figures = LiveFigures()

    for _ in range(5):
        assert not figures.is_slow
        figures.count(messages, 0.004 + waited, 0.004)

    assert (figures.is_slow, figures.is_quick) == (is_slow, not is_slow)
    figures.count(messages, 0.004, 0.004)
    assert not figures.is_slow
