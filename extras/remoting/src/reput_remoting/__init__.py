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

from reput.doors import door

if TYPE_CHECKING:
    from reput_remoting.addresses import Address as Address
    from reput_remoting.addresses import address_text as address_text
    from reput_remoting.addresses import parse_address as parse_address
    from reput_remoting.bodies.batch import BatchEntry as BatchEntry
    from reput_remoting.bodies.batch import decode_batch as decode_batch
    from reput_remoting.bodies.batch import encode_batch as encode_batch
    from reput_remoting.bodies.heartbeat import ConsumerData as ConsumerData
    from reput_remoting.bodies.heartbeat import Heartbeat as Heartbeat
    from reput_remoting.bodies.heartbeat import Subscription as Subscription
    from reput_remoting.bodies.heartbeat import subscription_of as subscription_of
    from reput_remoting.bodies.locks import QueueLocks as QueueLocks
    from reput_remoting.bodies.locks import decode_locked as decode_locked
    from reput_remoting.bodies.locks import encode_locked as encode_locked
    from reput_remoting.bodies.loosejson import parse_body as parse_body
    from reput_remoting.bodies.loosejson import write_body as write_body
    from reput_remoting.bodies.objects import BodyObject as BodyObject
    from reput_remoting.bodies.popping import AckedQueue as AckedQueue
    from reput_remoting.bodies.popping import AssignmentOf as AssignmentOf
    from reput_remoting.bodies.popping import ModeOf as ModeOf
    from reput_remoting.bodies.popping import decode_acks as decode_acks
    from reput_remoting.bodies.popping import encode_acks as encode_acks
    from reput_remoting.bodies.popping import encode_assignments as encode_assignments
    from reput_remoting.bodies.queues import QueueName as QueueName
    from reput_remoting.bodies.queues import queue_of as queue_of
    from reput_remoting.bodies.registration import FILTER_TYPES as FILTER_TYPES
    from reput_remoting.bodies.registration import Registration as Registration
    from reput_remoting.bodies.registration import TopicSettings as TopicSettings
    from reput_remoting.bodies.registration import data_version_of as data_version_of
    from reput_remoting.bodies.registration import topic_settings_of as topic_settings_of
    from reput_remoting.bodies.routes import MASTER_ID as MASTER_ID
    from reput_remoting.bodies.routes import BrokerData as BrokerData
    from reput_remoting.bodies.routes import ClusterInfo as ClusterInfo
    from reput_remoting.bodies.routes import QueueData as QueueData
    from reput_remoting.bodies.routes import TopicRoute as TopicRoute
    from reput_remoting.codes import RequestCode as RequestCode
    from reput_remoting.codes import ResponseCode as ResponseCode
    from reput_remoting.command import Command as Command
    from reput_remoting.errors import AddressError as AddressError
    from reput_remoting.errors import BodyError as BodyError
    from reput_remoting.errors import FrameError as FrameError
    from reput_remoting.errors import HeaderError as HeaderError
    from reput_remoting.errors import RemotingError as RemotingError
    from reput_remoting.errors import TransferError as TransferError
    from reput_remoting.framing.answers import AnswerFrames as AnswerFrames
    from reput_remoting.framing.frames import FRAME_SIZE_MAX as FRAME_SIZE_MAX
    from reput_remoting.framing.frames import FrameReader as FrameReader
    from reput_remoting.framing.frames import HeaderKind as HeaderKind
    from reput_remoting.framing.frames import encode_frame as encode_frame
    from reput_remoting.framing.plain import plain_command as plain_command
    from reput_remoting.framing.plain import plain_values as plain_values
    from reput_remoting.framing.replication import NOTHING_REPORTED as NOTHING_REPORTED
    from reput_remoting.framing.replication import Transfer as Transfer
    from reput_remoting.framing.replication import TransferReader as TransferReader
    from reput_remoting.framing.replication import encode_report as encode_report
    from reput_remoting.framing.replication import encode_transfer as encode_transfer
    from reput_remoting.framing.replication import last_report as last_report
    from reput_remoting.headers.administration import AclVersionAnswer as AclVersionAnswer
    from reput_remoting.headers.administration import CloneOffsets as CloneOffsets
    from reput_remoting.headers.administration import ConsumeStatsOf as ConsumeStatsOf
    from reput_remoting.headers.administration import ConsumeTimesOf as ConsumeTimesOf
    from reput_remoting.headers.administration import CorrectionOf as CorrectionOf
    from reput_remoting.headers.administration import CreateTopic as CreateTopic
    from reput_remoting.headers.administration import DeleteGroup as DeleteGroup
    from reput_remoting.headers.administration import GroupNamed as GroupNamed
    from reput_remoting.headers.administration import HaInfo as HaInfo
    from reput_remoting.headers.administration import QueueEntries as QueueEntries
    from reput_remoting.headers.administration import ResumeCheck as ResumeCheck
    from reput_remoting.headers.administration import StatsOf as StatsOf
    from reput_remoting.headers.administration import TopicOf as TopicOf
    from reput_remoting.headers.administration import VersionAnswer as VersionAnswer
    from reput_remoting.headers.fields import read_header as read_header
    from reput_remoting.headers.fields import write_header as write_header
    from reput_remoting.headers.members import ConsumeDirectly as ConsumeDirectly
    from reput_remoting.headers.members import ConsumerStatus as ConsumerStatus
    from reput_remoting.headers.members import GroupOf as GroupOf
    from reput_remoting.headers.members import ProducerGroupOf as ProducerGroupOf
    from reput_remoting.headers.members import ResetOffset as ResetOffset
    from reput_remoting.headers.members import RunningInfo as RunningInfo
    from reput_remoting.headers.members import Unregister as Unregister
    from reput_remoting.headers.names import BrokerAlive as BrokerAlive
    from reput_remoting.headers.names import BrokerNamed as BrokerNamed
    from reput_remoting.headers.names import ClusterOf as ClusterOf
    from reput_remoting.headers.names import DataVersionAnswer as DataVersionAnswer
    from reput_remoting.headers.names import Entry as Entry
    from reput_remoting.headers.names import EntryAnswer as EntryAnswer
    from reput_remoting.headers.names import EntryOf as EntryOf
    from reput_remoting.headers.names import MemberGroup as MemberGroup
    from reput_remoting.headers.names import NamespaceOf as NamespaceOf
    from reput_remoting.headers.names import RegisterAnswer as RegisterAnswer
    from reput_remoting.headers.names import RegisterBroker as RegisterBroker
    from reput_remoting.headers.names import TopicRouteOf as TopicRouteOf
    from reput_remoting.headers.names import UnregisterBroker as UnregisterBroker
    from reput_remoting.headers.names import WipedAnswer as WipedAnswer
    from reput_remoting.headers.names import WritableAnswer as WritableAnswer
    from reput_remoting.headers.offsets import GroupOffset as GroupOffset
    from reput_remoting.headers.offsets import OffsetAnswer as OffsetAnswer
    from reput_remoting.headers.offsets import OffsetByTime as OffsetByTime
    from reput_remoting.headers.offsets import QueueOf as QueueOf
    from reput_remoting.headers.offsets import TimestampAnswer as TimestampAnswer
    from reput_remoting.headers.offsets import UpdateGroupOffset as UpdateGroupOffset
    from reput_remoting.headers.popping import Ack as Ack
    from reput_remoting.headers.popping import ChangeInvisible as ChangeInvisible
    from reput_remoting.headers.popping import ChangeInvisibleAnswer as ChangeInvisibleAnswer
    from reput_remoting.headers.popping import Notification as Notification
    from reput_remoting.headers.popping import NotificationAnswer as NotificationAnswer
    from reput_remoting.headers.popping import PollingInfo as PollingInfo
    from reput_remoting.headers.popping import PollingInfoAnswer as PollingInfoAnswer
    from reput_remoting.headers.popping import Pop as Pop
    from reput_remoting.headers.popping import PopAnswer as PopAnswer
    from reput_remoting.headers.reading import Pull as Pull
    from reput_remoting.headers.reading import PullAnswer as PullAnswer
    from reput_remoting.headers.reading import PullFlag as PullFlag
    from reput_remoting.headers.reading import PullForbidden as PullForbidden
    from reput_remoting.headers.reading import Query as Query
    from reput_remoting.headers.reading import QueryAnswer as QueryAnswer
    from reput_remoting.headers.reading import View as View
    from reput_remoting.headers.sending import CheckTransaction as CheckTransaction
    from reput_remoting.headers.sending import EndTransaction as EndTransaction
    from reput_remoting.headers.sending import PushReply as PushReply
    from reput_remoting.headers.sending import Send as Send
    from reput_remoting.headers.sending import SendAnswer as SendAnswer
    from reput_remoting.headers.sending import SendBack as SendBack
    from reput_remoting.headers.sending import SendShort as SendShort
    from reput_remoting.peers import VERSION as VERSION
    from reput_remoting.peers import Language as Language
    from reput_remoting.peers import version_name as version_name
    from reput_remoting.peers import version_number as version_number
    from reput_remoting.signature import ACCESS_KEY as ACCESS_KEY
    from reput_remoting.signature import SIGNATURE as SIGNATURE
    from reput_remoting.signature import is_signed_with as is_signed_with
    from reput_remoting.signature import sign as sign
    from reput_remoting.signature import signature_of as signature_of
    from reput_remoting.systemnames import FORBIDDEN_TOPICS as FORBIDDEN_TOPICS
    from reput_remoting.systemnames import SYSTEM_TOPICS as SYSTEM_TOPICS
    from reput_remoting.systemnames import TEMPLATE_TOPIC as TEMPLATE_TOPIC
    from reput_remoting.systemnames import is_system_group as is_system_group
    from reput_remoting.systemnames import is_system_topic as is_system_topic
    from reput_remoting.uniquekeys import UniqueKeys as UniqueKeys

_HOMES = {
    "ACCESS_KEY": "signature",
    "Ack": "headers.popping",
    "AckedQueue": "bodies.popping",
    "AclVersionAnswer": "headers.administration",
    "Address": "addresses",
    "AddressError": "errors",
    "AnswerFrames": "framing.answers",
    "AssignmentOf": "bodies.popping",
    "BatchEntry": "bodies.batch",
    "BodyError": "errors",
    "BodyObject": "bodies.objects",
    "BrokerAlive": "headers.names",
    "BrokerData": "bodies.routes",
    "BrokerNamed": "headers.names",
    "ChangeInvisible": "headers.popping",
    "ChangeInvisibleAnswer": "headers.popping",
    "CheckTransaction": "headers.sending",
    "CloneOffsets": "headers.administration",
    "ClusterInfo": "bodies.routes",
    "ClusterOf": "headers.names",
    "Command": "command",
    "ConsumeDirectly": "headers.members",
    "ConsumeStatsOf": "headers.administration",
    "ConsumeTimesOf": "headers.administration",
    "ConsumerData": "bodies.heartbeat",
    "ConsumerStatus": "headers.members",
    "CorrectionOf": "headers.administration",
    "CreateTopic": "headers.administration",
    "DataVersionAnswer": "headers.names",
    "DeleteGroup": "headers.administration",
    "EndTransaction": "headers.sending",
    "Entry": "headers.names",
    "EntryAnswer": "headers.names",
    "EntryOf": "headers.names",
    "FILTER_TYPES": "bodies.registration",
    "FORBIDDEN_TOPICS": "systemnames",
    "FRAME_SIZE_MAX": "framing.frames",
    "FrameError": "errors",
    "FrameReader": "framing.frames",
    "GroupNamed": "headers.administration",
    "GroupOf": "headers.members",
    "GroupOffset": "headers.offsets",
    "HaInfo": "headers.administration",
    "HeaderError": "errors",
    "HeaderKind": "framing.frames",
    "Heartbeat": "bodies.heartbeat",
    "Language": "peers",
    "MASTER_ID": "bodies.routes",
    "MemberGroup": "headers.names",
    "ModeOf": "bodies.popping",
    "NOTHING_REPORTED": "framing.replication",
    "NamespaceOf": "headers.names",
    "Notification": "headers.popping",
    "NotificationAnswer": "headers.popping",
    "OffsetAnswer": "headers.offsets",
    "OffsetByTime": "headers.offsets",
    "PollingInfo": "headers.popping",
    "PollingInfoAnswer": "headers.popping",
    "Pop": "headers.popping",
    "PopAnswer": "headers.popping",
    "ProducerGroupOf": "headers.members",
    "Pull": "headers.reading",
    "PullAnswer": "headers.reading",
    "PullFlag": "headers.reading",
    "PullForbidden": "headers.reading",
    "PushReply": "headers.sending",
    "Query": "headers.reading",
    "QueryAnswer": "headers.reading",
    "QueueData": "bodies.routes",
    "QueueEntries": "headers.administration",
    "QueueLocks": "bodies.locks",
    "QueueName": "bodies.queues",
    "QueueOf": "headers.offsets",
    "RegisterAnswer": "headers.names",
    "RegisterBroker": "headers.names",
    "Registration": "bodies.registration",
    "RemotingError": "errors",
    "RequestCode": "codes",
    "ResetOffset": "headers.members",
    "ResponseCode": "codes",
    "ResumeCheck": "headers.administration",
    "RunningInfo": "headers.members",
    "SIGNATURE": "signature",
    "SYSTEM_TOPICS": "systemnames",
    "Send": "headers.sending",
    "SendAnswer": "headers.sending",
    "SendBack": "headers.sending",
    "SendShort": "headers.sending",
    "StatsOf": "headers.administration",
    "Subscription": "bodies.heartbeat",
    "TEMPLATE_TOPIC": "systemnames",
    "TimestampAnswer": "headers.offsets",
    "TopicOf": "headers.administration",
    "TopicRoute": "bodies.routes",
    "TopicRouteOf": "headers.names",
    "TopicSettings": "bodies.registration",
    "Transfer": "framing.replication",
    "TransferError": "errors",
    "TransferReader": "framing.replication",
    "UniqueKeys": "uniquekeys",
    "Unregister": "headers.members",
    "UnregisterBroker": "headers.names",
    "UpdateGroupOffset": "headers.offsets",
    "VERSION": "peers",
    "VersionAnswer": "headers.administration",
    "View": "headers.reading",
    "WipedAnswer": "headers.names",
    "WritableAnswer": "headers.names",
    "address_text": "addresses",
    "data_version_of": "bodies.registration",
    "decode_acks": "bodies.popping",
    "decode_batch": "bodies.batch",
    "decode_locked": "bodies.locks",
    "encode_acks": "bodies.popping",
    "encode_assignments": "bodies.popping",
    "encode_batch": "bodies.batch",
    "encode_frame": "framing.frames",
    "encode_locked": "bodies.locks",
    "encode_report": "framing.replication",
    "encode_transfer": "framing.replication",
    "is_signed_with": "signature",
    "is_system_group": "systemnames",
    "is_system_topic": "systemnames",
    "last_report": "framing.replication",
    "parse_address": "addresses",
    "parse_body": "bodies.loosejson",
    "plain_command": "framing.plain",
    "plain_values": "framing.plain",
    "queue_of": "bodies.queues",
    "read_header": "headers.fields",
    "sign": "signature",
    "signature_of": "signature",
    "subscription_of": "bodies.heartbeat",
    "topic_settings_of": "bodies.registration",
    "version_name": "peers",
    "version_number": "peers",
    "write_body": "bodies.loosejson",
    "write_header": "headers.fields",
}

__all__ = [*_HOMES]

if not TYPE_CHECKING:  # a name that is not listed is an error for mypy, too
    __getattr__, __dir__ = door(__name__, _HOMES)
