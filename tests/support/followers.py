"""Followers of fake masters, for tests."""

from __future__ import annotations

import contextlib

import pytest

from reput_server.follow import FollowEndedError, following, open_replica

WAIT = 60
"""Seconds, of which a test that passes takes none."""


@contextlib.contextmanager
def followed(path, master, config, **options):
    """A store at ``path`` that follows ``master``, and its follower."""
    options = {"plugins": ["consumequeue"], **options}
    with (
        open_replica(path, master.address, config, **options) as store,
        following(store, master.address, config) as follower,
    ):
        yield store, follower


def caught_up(follower):
    """The follower's status once it has all."""
    assert follower.wait_caught_up(WAIT)
    return follower.status()


def ended(follower):
    """Why the follower has ended, once it has."""
    state = follower.wait_state(timeout=WAIT)
    assert state.is_final, follower.status()
    with pytest.raises(FollowEndedError) as raised:
        follower.raise_end()
    assert raised.value.state is state
    assert follower.status().text == f"{raised.value.reason}; {raised.value.advice}"
    return raised.value
