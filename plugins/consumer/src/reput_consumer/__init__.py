"""Consumer groups for reput: offsets, the members and their queues, and retries of failures."""

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
    from reput_consumer.api.consumer import Consumer as Consumer
    from reput_consumer.api.listener import Retry as Retry
    from reput_consumer.api.pullconsumer import PullConsumer as PullConsumer
    from reput_consumer.api.receivedmessage import ReceivedMessage as ReceivedMessage
    from reput_consumer.backend.consumerbackend import DEAD_LETTER as DEAD_LETTER
    from reput_consumer.backend.consumerbackend import ConsumerBackend as ConsumerBackend
    from reput_consumer.backend.consumerbackend import Fetched as Fetched
    from reput_consumer.backend.consumerbackend import FetchRequest as FetchRequest
    from reput_consumer.backend.consumerbackend import FetchStatus as FetchStatus
    from reput_consumer.config import ConsumerConfig as ConsumerConfig
    from reput_consumer.consumerfactory import ConsumerFactory as ConsumerFactory
    from reput_consumer.consumption.directconsume import Handled as Handled
    from reput_consumer.consumption.directconsume import Outcome as Outcome
    from reput_consumer.consumption.queuestatus import QueueStatus as QueueStatus
    from reput_consumer.errors import GroupDisabledError as GroupDisabledError
    from reput_consumer.errors import GroupKindError as GroupKindError
    from reput_consumer.errors import MemberExistsError as MemberExistsError
    from reput_consumer.errors import SubscriptionMismatchError as SubscriptionMismatchError
    from reput_consumer.errors import TopicKeptError as TopicKeptError
    from reput_consumer.group.membersettings import EARLIEST as EARLIEST
    from reput_consumer.group.membersettings import LATEST as LATEST
    from reput_consumer.group.membersettings import MemberSettings as MemberSettings
    from reput_consumer.group.membersettings import Start as Start
    from reput_consumer.groupprogress import GroupProgress as GroupProgress
    from reput_consumer.groupprogress import QueueProgress as QueueProgress
    from reput_consumer.localmembers import LocalMembers as LocalMembers
    from reput_consumer.memberlist.snapshot import GroupMember as GroupMember
    from reput_consumer.memberlist.snapshot import MemberList as MemberList
    from reput_consumer.messagequeue import MessageQueue as MessageQueue
    from reput_consumer.metadata.localoffsets import LocalOffsets as LocalOffsets
    from reput_consumer.metadata.requestmodes import RequestMode as RequestMode
    from reput_consumer.metadata.subscriptiongroups import GroupSettings as GroupSettings
    from reput_consumer.metadata.topicsettings import TopicSettings as TopicSettings
    from reput_consumer.names import DLQ_PREFIX as DLQ_PREFIX
    from reput_consumer.names import RETRY_PREFIX as RETRY_PREFIX
    from reput_consumer.names import checked_group as checked_group
    from reput_consumer.names import checked_topic as checked_topic
    from reput_consumer.names import dead_letter_topic as dead_letter_topic
    from reput_consumer.names import pop_retry_topic as pop_retry_topic
    from reput_consumer.names import retry_topic as retry_topic
    from reput_consumer.plugin import ConsumerPlugin as ConsumerPlugin
    from reput_consumer.pop.popconsumer import PopConsumer as PopConsumer
    from reput_consumer.pop.popconsumer import PoppedMessage as PoppedMessage
    from reput_consumer.pop.poprequest import PopRequest as PopRequest
    from reput_consumer.pop.popservice import PopService as PopService
    from reput_consumer.pop.receipthandles import Handle as Handle
    from reput_consumer.pop.receipthandles import Popped as Popped
    from reput_consumer.processqueue import Limits as Limits
    from reput_consumer.selectors import ALL as ALL
    from reput_consumer.selectors import SQL92 as SQL92
    from reput_consumer.selectors import TAG as TAG
    from reput_consumer.selectors import Selector as Selector
    from reput_consumer.selectors import TagFilter as TagFilter
    from reput_consumer.selectors import are_mixed as are_mixed
    from reput_consumer.selectors import sql as sql
    from reput_consumer.selectors import subscriptions_of as subscriptions_of
    from reput_consumer.steadyclock import SteadyClock as SteadyClock
else:
    __getattr__, __dir__ = lazy_exports(__name__)
