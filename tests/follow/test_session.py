"""When a follower reports what, and when a master counts as gone; how far behind a store is."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from reput_server.follow import Lag
from reput_server.follow.follower.lag import LagMeter
from reput_server.follow.follower.states import FINAL, State
from reput_server.follow.replication.hakeepalive import HaKeepAlive

NOTHING = struct.pack(">q", -(2**50))


def session(*, acknowledge):
    return HaKeepAlive(acknowledge, report_interval=5.0, silence=20.0)


def test_an_observer_reports_what_it_wants_once_and_then_nothing():
    observer = session(acknowledge=False)

    assert observer.begin(700, 100.0) == struct.pack(">q", 700)
    assert observer.report(900, 100.1) is None  # a stock master would take only this one
    observer.received(900)
    assert observer.report(900, 100.2) == NOTHING  # the master knows at once what it is
    observer.received(950)
    assert observer.report(950, 105.1) is None
    assert observer.report(950, 105.2) == NOTHING


def test_a_master_that_sends_nothing_gets_the_second_report_in_time():
    observer = session(acknowledge=False)
    observer.begin(700, 100.0)

    assert observer.report(900, 104.9) is None
    assert observer.report(900, 105.0) == NOTHING


def test_a_replica_reports_what_is_on_disk_at_once_and_again_in_time():
    replica = session(acknowledge=True)
    replica.begin(700, 100.0)
    replica.received(900)

    assert replica.report(700, 100.1) == struct.pack(">q", 700)  # its first counts at no server
    assert replica.report(700, 101.0) is None
    assert replica.report(850, 101.1) == struct.pack(">q", 850)
    assert replica.report(850, 101.2) is None
    assert replica.report(900, 101.3) == struct.pack(">q", 900)
    assert replica.report(900, 106.3) == struct.pack(">q", 900)


def test_a_replica_reports_nothing_that_this_connection_has_not_sent():
    replica = session(acknowledge=True)
    replica.begin(700, 100.0)

    assert replica.report(5_000, 101.0) is None


def test_a_master_that_sends_nothing_is_gone_after_a_time():
    observer = session(acknowledge=False)
    observer.begin(0, 100.0)
    observer.report(0, 119.0)

    assert not observer.is_silent(119.9)
    assert observer.is_silent(120.0)
    observer.heard(120.0)
    assert not observer.is_silent(139.9)


@given(st.lists(st.integers(0, 100), max_size=30))
def test_a_wait_ends_before_something_is_due(steps):
    observer, now = session(acknowledge=False), 0
    observer.begin(0, now)
    reported = now
    for step in sorted(steps):
        wait = observer.wait_seconds(now)
        assert 0 < wait <= 5.0
        now = max(now, step)
        if observer.report(0, now) is not None:
            reported = now
        assert now - reported < 5.0


# --------------------------------------------------------------------------- lag


def test_a_store_that_has_all_is_not_behind():
    meter = LagMeter()
    assert meter.lag(0.0, 0, None) == Lag(None, None, None)

    meter.saw(10.0, 500, 500)

    assert meter.lag(90.0, 500, 100.0) == Lag(0, 0, 0.0)


def test_lag_is_counted_from_when_the_master_had_the_first_byte_that_is_missing():
    meter = LagMeter()
    meter.saw(10.0, 500, 500)
    meter.saw(12.0, 700, 500)
    meter.saw(14.0, 900, 500)

    assert meter.lag(15.0, 500, 100.0) == Lag(400, 4, 3.0)
    assert meter.lag(15.0, 700, 100.0) == Lag(200, 2, 1.0)
    assert meter.lag(15.0, 899, 100.0) == Lag(1, 1, 1.0)
    assert meter.lag(15.0, 900, None) == Lag(0, 0, 0.0)


def test_a_master_that_does_not_grow_leaves_the_lag_where_it_began():
    meter = LagMeter()
    meter.saw(10.0, 900, 0)
    for now in range(11, 60):
        meter.saw(float(now), 900, 0)

    assert meter.lag(60.0, 0, None) == Lag(900, None, 50.0)


def test_states_have_names_and_numbers_of_their_own():
    assert sorted(each.number for each in State) == list(range(len(State)))
    assert State.FOLLOWING.number == 0
    assert not {State.CONNECTING, State.FOLLOWING, State.MASTER_GONE} & FINAL
