"""Follows the commit log of a running broker, so that plugins work on its messages.

    with reput_follow.open_replica("store", "broker-host:10911", plugins={"index"}) as store:
        with reput_follow.following(store, "broker-host:10911") as follower:
            follower.wait_caught_up()
            print(follower.lag)

``reput follow PATH --from HOST:PORT`` does the same from a command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_follow.asking.broker import Broker as Broker
    from reput_follow.asking.facts import BrokerFacts as BrokerFacts
    from reput_follow.asking.facts import LogRange as LogRange
    from reput_follow.config import FollowConfig as FollowConfig
    from reput_follow.errors import BrokerError as BrokerError
    from reput_follow.errors import FollowError as FollowError
    from reput_follow.running.follower import Follower as Follower
    from reput_follow.running.follower import FollowStatus as FollowStatus
    from reput_follow.running.lag import Lag as Lag
    from reput_follow.running.opening import following as following
    from reput_follow.running.opening import open_replica as open_replica
    from reput_follow.running.source import DirectorySource as DirectorySource
    from reput_follow.running.source import Source as Source
    from reput_follow.running.states import FollowEndedError as FollowEndedError
    from reput_follow.running.states import State as State

_HOMES = {
    "Broker": "asking.broker",
    "BrokerError": "errors",
    "BrokerFacts": "asking.facts",
    "DirectorySource": "running.source",
    "FollowConfig": "config",
    "FollowEndedError": "running.states",
    "FollowError": "errors",
    "FollowStatus": "running.follower",
    "Follower": "running.follower",
    "Lag": "running.lag",
    "LogRange": "asking.facts",
    "Source": "running.source",
    "State": "running.states",
    "following": "running.opening",
    "open_replica": "running.opening",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
