"""Allocation of queues: RocketMQ's six strategies, as functions of what all members see.

Each member computes its own share from the same two sorted lists. So a
strategy must be a pure function: the shares of all members are then disjoint, and cover all queues.
Nothing here knows a store, a thread or a network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_consumer.allocation.consistenthash import ConsistentHash as ConsistentHash
    from reput_consumer.allocation.machineroom import MachineRoom as MachineRoom
    from reput_consumer.allocation.machineroom import NearbyRoom as NearbyRoom
    from reput_consumer.allocation.simple import Average as Average
    from reput_consumer.allocation.simple import Circle as Circle
    from reput_consumer.allocation.simple import Configured as Configured
    from reput_consumer.allocation.strategy import AllocationError as AllocationError
    from reput_consumer.allocation.strategy import Strategy as Strategy
    from reput_consumer.allocation.strategy import share as share
else:
    __getattr__, __dir__ = lazy_exports(__name__)
