"""Follows the commit log of a running broker, so that plugins work on its messages.

    with reput_server.follow.open_replica("store", "broker-host:10911", plugins={"index"}) as store:
        with reput_server.follow.following(store, "broker-host:10911") as follower:
            follower.wait_caught_up()
            print(follower.lag)

``reput follow PATH --from HOST:PORT`` does the same from a command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_server.follow.brokerclient.brokerclient import BrokerClient as BrokerClient
    from reput_server.follow.brokerclient.brokerfacts import BrokerFacts as BrokerFacts
    from reput_server.follow.brokerclient.brokerfacts import LogRange as LogRange
    from reput_server.follow.config import FollowConfig as FollowConfig
    from reput_server.follow.errors import BrokerError as BrokerError
    from reput_server.follow.errors import CorruptFeedError as CorruptFeedError
    from reput_server.follow.errors import DivergedError as DivergedError
    from reput_server.follow.errors import FeedError as FeedError
    from reput_server.follow.errors import FeedGapError as FeedGapError
    from reput_server.follow.errors import FollowError as FollowError
    from reput_server.follow.follower.follower import Follower as Follower
    from reput_server.follow.follower.follower import FollowStatus as FollowStatus
    from reput_server.follow.follower.lag import Lag as Lag
    from reput_server.follow.follower.replicafeed import ReplicaFeed as ReplicaFeed
    from reput_server.follow.follower.replicaopening import following as following
    from reput_server.follow.follower.replicaopening import open_replica as open_replica
    from reput_server.follow.follower.source import DirectorySource as DirectorySource
    from reput_server.follow.follower.source import Source as Source
    from reput_server.follow.follower.states import FollowEndedError as FollowEndedError
    from reput_server.follow.follower.states import State as State
else:
    __getattr__, __dir__ = lazy_exports(__name__)
