"""Consumer groups for reput: offsets, the members and their queues, and retries of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.doors import door

if TYPE_CHECKING:
    from reput_consumer.allocation.consistenthash import ConsistentHash as ConsistentHash
    from reput_consumer.allocation.rooms import MachineRoom as MachineRoom
    from reput_consumer.allocation.rooms import NearbyRoom as NearbyRoom
    from reput_consumer.allocation.simple import Average as Average
    from reput_consumer.allocation.simple import Circle as Circle
    from reput_consumer.allocation.simple import Configured as Configured
    from reput_consumer.config import ConsumerConfig as ConsumerConfig
    from reput_consumer.consuming.handlednow import Handled as Handled
    from reput_consumer.consuming.handlednow import Outcome as Outcome
    from reput_consumer.consuming.queuestatus import QueueStatus as QueueStatus
    from reput_consumer.errors import GroupDisabledError as GroupDisabledError
    from reput_consumer.errors import GroupKindError as GroupKindError
    from reput_consumer.errors import MemberExistsError as MemberExistsError
    from reput_consumer.faces.consumer import Consumer as Consumer
    from reput_consumer.faces.message import ReceivedMessage as ReceivedMessage
    from reput_consumer.faces.pull import PullConsumer as PullConsumer
    from reput_consumer.faces.running import Retry as Retry
    from reput_consumer.group.settings import EARLIEST as EARLIEST
    from reput_consumer.group.settings import LATEST as LATEST
    from reput_consumer.group.settings import MemberSettings as MemberSettings
    from reput_consumer.group.settings import Start as Start
    from reput_consumer.members import Members as Members
    from reput_consumer.metadata.groups import GroupSettings as GroupSettings
    from reput_consumer.metadata.localoffsets import LocalOffsets as LocalOffsets
    from reput_consumer.metadata.requestmodes import RequestMode as RequestMode
    from reput_consumer.metadata.topics import TopicSettings as TopicSettings
    from reput_consumer.names import DLQ_PREFIX as DLQ_PREFIX
    from reput_consumer.names import RETRY_PREFIX as RETRY_PREFIX
    from reput_consumer.names import checked_group as checked_group
    from reput_consumer.names import checked_topic as checked_topic
    from reput_consumer.names import dead_letter_topic as dead_letter_topic
    from reput_consumer.names import pop_retry_topic as pop_retry_topic
    from reput_consumer.names import retry_topic as retry_topic
    from reput_consumer.opening import OpensConsumers as OpensConsumers
    from reput_consumer.plugin import ConsumerPlugin as ConsumerPlugin
    from reput_consumer.popping.consumer import PopConsumer as PopConsumer
    from reput_consumer.popping.consumer import PoppedMessage as PoppedMessage
    from reput_consumer.popping.popper import Popper as Popper
    from reput_consumer.popping.request import PopRequest as PopRequest
    from reput_consumer.popping.values import Handle as Handle
    from reput_consumer.popping.values import Popped as Popped
    from reput_consumer.port.port import DEAD_LETTER as DEAD_LETTER
    from reput_consumer.port.port import ConsumerPort as ConsumerPort
    from reput_consumer.port.port import Fetched as Fetched
    from reput_consumer.port.port import FetchRequest as FetchRequest
    from reput_consumer.port.port import FetchStatus as FetchStatus
    from reput_consumer.processing.processqueue import Limits as Limits
    from reput_consumer.progress import GroupProgress as GroupProgress
    from reput_consumer.progress import QueueProgress as QueueProgress
    from reput_consumer.queues import MessageQueue as MessageQueue
    from reput_consumer.roster.values import GroupMember as GroupMember
    from reput_consumer.roster.values import Roster as Roster
    from reput_consumer.selectors import ALL as ALL
    from reput_consumer.selectors import SQL92 as SQL92
    from reput_consumer.selectors import TAG as TAG
    from reput_consumer.selectors import Selector as Selector
    from reput_consumer.selectors import TagFilter as TagFilter
    from reput_consumer.selectors import sql as sql

_HOMES = {
    "ALL": "selectors",
    "Average": "allocation.simple",
    "Circle": "allocation.simple",
    "Configured": "allocation.simple",
    "ConsistentHash": "allocation.consistenthash",
    "Consumer": "faces.consumer",
    "ConsumerConfig": "config",
    "ConsumerPlugin": "plugin",
    "ConsumerPort": "port.port",
    "DEAD_LETTER": "port.port",
    "DLQ_PREFIX": "names",
    "EARLIEST": "group.settings",
    "FetchRequest": "port.port",
    "FetchStatus": "port.port",
    "Fetched": "port.port",
    "GroupDisabledError": "errors",
    "GroupKindError": "errors",
    "GroupMember": "roster.values",
    "GroupProgress": "progress",
    "GroupSettings": "metadata.groups",
    "Handle": "popping.values",
    "Handled": "consuming.handlednow",
    "LATEST": "group.settings",
    "Limits": "processing.processqueue",
    "LocalOffsets": "metadata.localoffsets",
    "MachineRoom": "allocation.rooms",
    "MemberExistsError": "errors",
    "MemberSettings": "group.settings",
    "Members": "members",
    "MessageQueue": "queues",
    "NearbyRoom": "allocation.rooms",
    "Outcome": "consuming.handlednow",
    "OpensConsumers": "opening",
    "PopConsumer": "popping.consumer",
    "PopRequest": "popping.request",
    "Popped": "popping.values",
    "PoppedMessage": "popping.consumer",
    "Popper": "popping.popper",
    "PullConsumer": "faces.pull",
    "QueueProgress": "progress",
    "QueueStatus": "consuming.queuestatus",
    "ReceivedMessage": "faces.message",
    "RequestMode": "metadata.requestmodes",
    "RETRY_PREFIX": "names",
    "Retry": "faces.running",
    "Roster": "roster.values",
    "SQL92": "selectors",
    "Selector": "selectors",
    "Start": "group.settings",
    "TAG": "selectors",
    "TagFilter": "selectors",
    "TopicSettings": "metadata.topics",
    "checked_group": "names",
    "checked_topic": "names",
    "dead_letter_topic": "names",
    "pop_retry_topic": "names",
    "retry_topic": "names",
    "sql": "selectors",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
