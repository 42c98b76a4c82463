"""The protocol of RocketMQ's clients, brokers and name servers: bytes in, values out.

    reader = FrameReader()
    reader.feed(data)
    while (command := reader.next_command()) is not None:
        header = command.header(Pull)
        answer = encode_frame(command.answer(ResponseCode.SYSTEM_ERROR, remark="not today"))

Nothing in it opens a socket; that is what the server and the client of reput do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reput.lazyexports import lazy_exports

if TYPE_CHECKING:
    from reput_client.remoting.addresses import Address as Address
    from reput_client.remoting.addresses import address_text as address_text
    from reput_client.remoting.addresses import parse_address as parse_address
    from reput_client.remoting.bodies.batch import BatchEntry as BatchEntry
    from reput_client.remoting.bodies.batch import decode_batch as decode_batch
    from reput_client.remoting.bodies.batch import encode_batch as encode_batch
    from reput_client.remoting.bodies.bodyobject import BodyObject as BodyObject
    from reput_client.remoting.bodies.heartbeat import ConsumerData as ConsumerData
    from reput_client.remoting.bodies.heartbeat import Heartbeat as Heartbeat
    from reput_client.remoting.bodies.heartbeat import Subscription as Subscription
    from reput_client.remoting.bodies.heartbeat import subscription_of as subscription_of
    from reput_client.remoting.bodies.locks import QueueLocks as QueueLocks
    from reput_client.remoting.bodies.locks import decode_locked as decode_locked
    from reput_client.remoting.bodies.locks import encode_locked as encode_locked
    from reput_client.remoting.bodies.loosejson import parse_body as parse_body
    from reput_client.remoting.bodies.loosejson import write_body as write_body
    from reput_client.remoting.bodies.pop import AckedQueue as AckedQueue
    from reput_client.remoting.bodies.pop import AssignmentOf as AssignmentOf
    from reput_client.remoting.bodies.pop import ModeOf as ModeOf
    from reput_client.remoting.bodies.pop import decode_acks as decode_acks
    from reput_client.remoting.bodies.pop import encode_acks as encode_acks
    from reput_client.remoting.bodies.pop import encode_assignments as encode_assignments
    from reput_client.remoting.bodies.queuename import QueueName as QueueName
    from reput_client.remoting.bodies.queuename import queue_of as queue_of
    from reput_client.remoting.bodies.registration import FILTER_TYPES as FILTER_TYPES
    from reput_client.remoting.bodies.registration import Registration as Registration
    from reput_client.remoting.bodies.registration import TopicSettings as TopicSettings
    from reput_client.remoting.bodies.registration import data_version_of as data_version_of
    from reput_client.remoting.bodies.registration import topic_settings_of as topic_settings_of
    from reput_client.remoting.bodies.routes import MASTER_ID as MASTER_ID
    from reput_client.remoting.bodies.routes import BrokerData as BrokerData
    from reput_client.remoting.bodies.routes import ClusterInfo as ClusterInfo
    from reput_client.remoting.bodies.routes import QueueData as QueueData
    from reput_client.remoting.bodies.routes import TopicRoute as TopicRoute
    from reput_client.remoting.codes import RequestCode as RequestCode
    from reput_client.remoting.codes import ResponseCode as ResponseCode
    from reput_client.remoting.command import Command as Command
    from reput_client.remoting.errors import AddressError as AddressError
    from reput_client.remoting.errors import BodyError as BodyError
    from reput_client.remoting.errors import FrameError as FrameError
    from reput_client.remoting.errors import HeaderError as HeaderError
    from reput_client.remoting.errors import RemotingError as RemotingError
    from reput_client.remoting.errors import TransferError as TransferError
    from reput_client.remoting.framing.answerframes import AnswerFrames as AnswerFrames
    from reput_client.remoting.framing.frames import FRAME_SIZE_MAX as FRAME_SIZE_MAX
    from reput_client.remoting.framing.frames import FrameReader as FrameReader
    from reput_client.remoting.framing.frames import HeaderKind as HeaderKind
    from reput_client.remoting.framing.frames import encode_frame as encode_frame
    from reput_client.remoting.framing.plainframes import plain_command as plain_command
    from reput_client.remoting.framing.plainframes import plain_values as plain_values
    from reput_client.remoting.framing.replication import NOTHING_REPORTED as NOTHING_REPORTED
    from reput_client.remoting.framing.replication import Transfer as Transfer
    from reput_client.remoting.framing.replication import TransferReader as TransferReader
    from reput_client.remoting.framing.replication import encode_report as encode_report
    from reput_client.remoting.framing.replication import encode_transfer as encode_transfer
    from reput_client.remoting.framing.replication import last_report as last_report
    from reput_client.remoting.headers.administration import AclVersionAnswer as AclVersionAnswer
    from reput_client.remoting.headers.administration import CloneOffsets as CloneOffsets
    from reput_client.remoting.headers.administration import ConsumeStatsOf as ConsumeStatsOf
    from reput_client.remoting.headers.administration import ConsumeTimesOf as ConsumeTimesOf
    from reput_client.remoting.headers.administration import CorrectionOf as CorrectionOf
    from reput_client.remoting.headers.administration import CreateTopic as CreateTopic
    from reput_client.remoting.headers.administration import DeleteGroup as DeleteGroup
    from reput_client.remoting.headers.administration import GroupNamed as GroupNamed
    from reput_client.remoting.headers.administration import HaInfo as HaInfo
    from reput_client.remoting.headers.administration import QueueEntries as QueueEntries
    from reput_client.remoting.headers.administration import ResumeCheck as ResumeCheck
    from reput_client.remoting.headers.administration import StatsOf as StatsOf
    from reput_client.remoting.headers.administration import TopicOf as TopicOf
    from reput_client.remoting.headers.administration import VersionAnswer as VersionAnswer
    from reput_client.remoting.headers.clients import ConsumeDirectly as ConsumeDirectly
    from reput_client.remoting.headers.clients import ConsumerStatus as ConsumerStatus
    from reput_client.remoting.headers.clients import GroupOf as GroupOf
    from reput_client.remoting.headers.clients import ProducerGroupOf as ProducerGroupOf
    from reput_client.remoting.headers.clients import ResetOffset as ResetOffset
    from reput_client.remoting.headers.clients import RunningInfo as RunningInfo
    from reput_client.remoting.headers.clients import Unregister as Unregister
    from reput_client.remoting.headers.fields import read_header as read_header
    from reput_client.remoting.headers.fields import write_header as write_header
    from reput_client.remoting.headers.lite import LiteClientOf as LiteClientOf
    from reput_client.remoting.headers.lite import LiteGroupOf as LiteGroupOf
    from reput_client.remoting.headers.lite import LitePop as LitePop
    from reput_client.remoting.headers.lite import LiteTopicOf as LiteTopicOf
    from reput_client.remoting.headers.lite import LiteUnsubscribed as LiteUnsubscribed
    from reput_client.remoting.headers.lite import LiteWake as LiteWake
    from reput_client.remoting.headers.nameserver import BrokerAlive as BrokerAlive
    from reput_client.remoting.headers.nameserver import BrokerNamed as BrokerNamed
    from reput_client.remoting.headers.nameserver import ClusterOf as ClusterOf
    from reput_client.remoting.headers.nameserver import DataVersionAnswer as DataVersionAnswer
    from reput_client.remoting.headers.nameserver import Entry as Entry
    from reput_client.remoting.headers.nameserver import EntryAnswer as EntryAnswer
    from reput_client.remoting.headers.nameserver import EntryOf as EntryOf
    from reput_client.remoting.headers.nameserver import MemberGroup as MemberGroup
    from reput_client.remoting.headers.nameserver import NamespaceOf as NamespaceOf
    from reput_client.remoting.headers.nameserver import RegisterAnswer as RegisterAnswer
    from reput_client.remoting.headers.nameserver import RegisterBroker as RegisterBroker
    from reput_client.remoting.headers.nameserver import TopicRouteOf as TopicRouteOf
    from reput_client.remoting.headers.nameserver import UnregisterBroker as UnregisterBroker
    from reput_client.remoting.headers.nameserver import WipedAnswer as WipedAnswer
    from reput_client.remoting.headers.nameserver import WritableAnswer as WritableAnswer
    from reput_client.remoting.headers.offsets import GroupOffset as GroupOffset
    from reput_client.remoting.headers.offsets import OffsetAnswer as OffsetAnswer
    from reput_client.remoting.headers.offsets import OffsetByTime as OffsetByTime
    from reput_client.remoting.headers.offsets import QueueOf as QueueOf
    from reput_client.remoting.headers.offsets import TimestampAnswer as TimestampAnswer
    from reput_client.remoting.headers.offsets import UpdateGroupOffset as UpdateGroupOffset
    from reput_client.remoting.headers.pop import Ack as Ack
    from reput_client.remoting.headers.pop import ChangeInvisible as ChangeInvisible
    from reput_client.remoting.headers.pop import ChangeInvisibleAnswer as ChangeInvisibleAnswer
    from reput_client.remoting.headers.pop import Notification as Notification
    from reput_client.remoting.headers.pop import NotificationAnswer as NotificationAnswer
    from reput_client.remoting.headers.pop import PollingInfo as PollingInfo
    from reput_client.remoting.headers.pop import PollingInfoAnswer as PollingInfoAnswer
    from reput_client.remoting.headers.pop import Pop as Pop
    from reput_client.remoting.headers.pop import PopAnswer as PopAnswer
    from reput_client.remoting.headers.read import Pull as Pull
    from reput_client.remoting.headers.read import PullAnswer as PullAnswer
    from reput_client.remoting.headers.read import PullFlag as PullFlag
    from reput_client.remoting.headers.read import PullForbidden as PullForbidden
    from reput_client.remoting.headers.read import Query as Query
    from reput_client.remoting.headers.read import QueryAnswer as QueryAnswer
    from reput_client.remoting.headers.read import View as View
    from reput_client.remoting.headers.send import CheckTransaction as CheckTransaction
    from reput_client.remoting.headers.send import EndTransaction as EndTransaction
    from reput_client.remoting.headers.send import PushReply as PushReply
    from reput_client.remoting.headers.send import Send as Send
    from reput_client.remoting.headers.send import SendAnswer as SendAnswer
    from reput_client.remoting.headers.send import SendBack as SendBack
    from reput_client.remoting.headers.send import SendShort as SendShort
    from reput_client.remoting.peerlanguage import VERSION as VERSION
    from reput_client.remoting.peerlanguage import Language as Language
    from reput_client.remoting.peerlanguage import version_name as version_name
    from reput_client.remoting.peerlanguage import version_number as version_number
    from reput_client.remoting.signature import ACCESS_KEY as ACCESS_KEY
    from reput_client.remoting.signature import SIGNATURE as SIGNATURE
    from reput_client.remoting.signature import is_signed_with as is_signed_with
    from reput_client.remoting.signature import sign as sign
    from reput_client.remoting.signature import signature_of as signature_of
    from reput_client.remoting.uniquekeys import UniqueKeys as UniqueKeys
else:
    __getattr__, __dir__ = lazy_exports(__name__)
