"""A name server and brokers in this process, which answer as RocketMQ's do, or as a test tells.

They keep messages in lists and know neither disk nor time: what is delayed comes at once. What real
brokers do is shown by tests that start some (`realbroker`); here faults are made on purpose.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self, TypeVar

import attrs

from reput.record import (
    Encoder,
    Message,
    MessageView,
    encode_properties,
    pack_host,
    parse_properties,
)
from reput_client.remoting import (
    CheckTransaction,
    Command,
    EndTransaction,
    FrameReader,
    GroupOf,
    GroupOffset,
    OffsetAnswer,
    OffsetByTime,
    Pull,
    PullAnswer,
    PullFlag,
    PushReply,
    QueueOf,
    RequestCode,
    ResponseCode,
    SendAnswer,
    SendBack,
    SendShort,
    Unregister,
    UpdateGroupOffset,
    decode_batch,
    encode_frame,
    parse_body,
    write_body,
)

_T = TypeVar("_T")
_Answering = Callable[["Peer", Command], Awaitable[Command | None]]
_HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
_NOW = 1_700_000_000_000
Queue = tuple[str, int]


@attrs.define
class Fault:
    """What happens to requests of one code, instead of an answer."""

    code: int
    times: int
    answer: int | None = None
    """The response code; None for none."""
    drops: bool = False
    """Whether the connection ends."""
    garbage: bytes | None = None
    """Bytes that are no frame."""


class Peer:
    """A client's connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.client_id: str | None = None

    def send(self, command: Command) -> None:
        self.writer.write(encode_frame(command))


class Listener:
    """A port that answers requests; what it got is in `requests`."""

    def __init__(self) -> None:
        self.requests: list[Command] = []
        self.changed: Callable[[], None] = lambda: None
        """Called with each request and each answer, and when a connection has ended."""
        self.faults: list[Fault] = []
        self.peers: set[Peer] = set()
        self.address = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def answering(self) -> dict[int, _Answering]:
        """What answers each request code; the name server's and the broker's own."""
        raise NotImplementedError

    def gone(self, peer: Peer) -> None:
        """Called when a connection has ended."""

    async def open(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        host, found = self._server.sockets[0].getsockname()
        self.address = f"{host}:{found}"

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for peer in list(self.peers):
            peer.writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, frames = Peer(writer), FrameReader()
        self.peers.add(peer)
        try:
            while data := await reader.read(1 << 16):
                frames.feed(data)
                while (command := frames.next_command()) is not None:
                    if not command.is_response:
                        task = asyncio.get_running_loop().create_task(self._take(peer, command))
                        self._tasks.add(task)
                        task.add_done_callback(self._tasks.discard)
        except ConnectionError:
            pass
        finally:
            self.peers.discard(peer)
            self.gone(peer)
            writer.close()
            self.changed()

    async def _take(self, peer: Peer, command: Command) -> None:
        self.requests.append(command)
        self.changed()
        for fault in self.faults:
            if fault.code == command.code and fault.times:
                fault.times -= 1
                self._fail(peer, command, fault)
                self.changed()
                return
        answering = self.answering().get(command.code)
        if answering is None:
            answer: Command | None = command.answer(3, remark="not supported")
        else:
            answer = await answering(peer, command)
        if answer is not None and not command.is_one_way:
            peer.send(answer)
        self.changed()

    def _fail(self, peer: Peer, command: Command, fault: Fault) -> None:
        if fault.drops:
            peer.writer.transport.abort()
        elif fault.garbage is not None:
            peer.writer.write(fault.garbage)
        elif fault.answer is not None:
            peer.send(command.answer(fault.answer, remark="as the test wants it"))


class FakeNames(Listener):
    """The name server of a cluster."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__()
        self._cluster = cluster

    def answering(self) -> dict[int, _Answering]:
        return {RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route}

    async def _route(self, peer: Peer, command: Command) -> Command:
        topic = command.fields["topic"]
        brokers = [each for each in self._cluster.brokers if each.has(topic)]
        if not brokers:
            return command.answer(ResponseCode.TOPIC_NOT_EXIST, remark="no topic route info")
        body = {
            "queueDatas": [
                {
                    "brokerName": each.name,
                    "readQueueNums": each.queue_count(topic),
                    "writeQueueNums": each.queue_count(topic),
                    "perm": 7 if topic == "TBW102" else 6,
                }
                for each in brokers
            ],
            "brokerDatas": [
                {"brokerName": each.name, "cluster": "c", "brokerAddrs": {0: each.address}}
                for each in brokers
            ],
        }
        return command.answer(0, body=write_body(body))


class FakeBroker(Listener):
    """A broker: its queues, groups, locks and half messages."""

    def __init__(self, name: str, default_queue_count: int) -> None:
        super().__init__()
        self.name = name
        self.queues: dict[Queue, list[bytes]] = {}
        self.offsets: dict[tuple[str, Queue], int] = {}
        self.members: dict[str, dict[str, Peer]] = {}
        self.subscriptions: dict[str, list[Any]] = {}
        self.producers: dict[str, dict[str, Peer]] = {}
        self.locks: dict[tuple[str, Queue], str] = {}
        self.halves: dict[int, Message] = {}
        self.ended: list[EndTransaction] = []
        self.first_offsets: dict[Queue, int] = {}
        self.hiding_count = 0
        """How many answers leave out the last message of a queue, as it is not in there yet."""
        self._topics: dict[str, int] = {"TBW102": default_queue_count, "c_REPLY_TOPIC": 1}
        self._positions = itertools.count(0, 1_000)
        self._arrived = asyncio.Event()
        self._encoder = Encoder()

    async def open(self, port: int = 0) -> None:
        await super().open(port)
        host, _, found = self.address.rpartition(":")
        self._encoder = Encoder(pack_host(host, int(found)))

    def has(self, topic: str) -> bool:
        return topic in self._topics

    def queue_count(self, topic: str) -> int:
        return self._topics[topic]

    def add_topic(self, topic: str, queue_count: int) -> None:
        self._topics.setdefault(topic, queue_count)

    def messages(self, topic: str) -> list[MessageView]:
        """What is stored in a topic, queue by queue."""
        return [
            MessageView(record)
            for (name, _), records in sorted(self.queues.items())
            if name == topic
            for record in records
        ]

    def answering(self) -> dict[int, _Answering]:
        return {
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.SEND_BATCH_MESSAGE: self._send_batch,
            RequestCode.SEND_REPLY_MESSAGE_V2: self._reply,
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
            RequestCode.QUERY_CONSUMER_OFFSET: self._offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._commit,
            RequestCode.GET_MAX_OFFSET: self._bound,
            RequestCode.GET_MIN_OFFSET: self._bound,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._by_time,
            RequestCode.CONSUMER_SEND_MSG_BACK: self._send_back,
            RequestCode.LOCK_BATCH_MQ: self._lock,
            RequestCode.UNLOCK_BATCH_MQ: self._lock,
            RequestCode.END_TRANSACTION: self._end,
        }

    # ------------------------------------------------------------------ storing

    def store(self, message: Message) -> tuple[int, int]:
        """Store a message; its queue offset and physical offset."""
        records = self.queues.setdefault((message.topic, message.queue_id), [])
        position = next(self._positions)
        records.append(self._encoder.encode(message, len(records), position, _NOW))
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()
        return len(records) - 1, position

    def _message(self, peer: Peer, header: SendShort, body: bytes, properties: str) -> Message:
        self.add_topic(header.topic, header.default_topic_queue_nums)
        return Message(
            header.topic,
            body,
            queue_id=header.queue_id,
            properties=(properties + "CLUSTER\x01c\x02").encode(),
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            reconsume_times=header.reconsume_times or 0,
        )

    def _id(self, position: int) -> str:
        return (self._encoder.store_host + position.to_bytes(8, "big")).hex().upper()

    async def _send(self, peer: Peer, command: Command) -> Command:
        header: SendShort = command.header(SendShort)
        message = self._message(peer, header, command.body, header.properties or "")
        named = parse_properties((header.properties or "").encode())
        if named.get("TRAN_MSG") == "true":
            position = next(self._positions)
            offset = len(self.halves)
            self.halves[position] = message
        else:
            offset, position = self.store(message)
        answer = SendAnswer(
            msg_id=self._id(position),
            queue_id=header.queue_id,
            queue_offset=offset,
            transaction_id=named.get("UNIQ_KEY"),
        )
        return command.answer(0, answer)

    async def _send_batch(self, peer: Peer, command: Command) -> Command:
        header: SendShort = command.header(SendShort)
        stored = [
            self.store(self._message(peer, header, each.body, each.properties.decode()))
            for each in decode_batch(command.body)
        ]
        ids = ",".join(self._id(position) for _, position in stored)
        answer = SendAnswer(msg_id=ids, queue_id=header.queue_id, queue_offset=stored[0][0])
        return command.answer(0, answer)

    async def _reply(self, peer: Peer, command: Command) -> Command:
        header: SendShort = command.header(SendShort)
        named = parse_properties((header.properties or "").encode())
        found = {
            client: each for peers in self.producers.values() for client, each in peers.items()
        }.get(named["REPLY_TO_CLIENT"])
        if found is None:
            return command.answer(1, remark="push reply message fail, channel is not found")
        fields = attrs.asdict(header.spelled_out())
        del fields["max_reconsume_times"], fields["batch"]
        push = PushReply(**fields, born_host="/h:1", store_host="/h:2", store_timestamp=_NOW)
        found.send(
            Command.request(
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push, body=command.body, opaque=77
            )
        )
        return command.answer(0, SendAnswer(msg_id="0", queue_id=0, queue_offset=0))

    async def _send_back(self, peer: Peer, command: Command) -> Command:
        header: SendBack = command.header(SendBack)
        for records in list(self.queues.values()):
            for record in records:
                view = MessageView(record)
                if view.physical_offset == header.offset:
                    is_dead = header.delay_level < 0
                    topic = f"{'%DLQ%' if is_dead else '%RETRY%'}{header.group}"
                    self.add_topic(topic, 1)
                    properties = {**view.properties}
                    properties.setdefault("RETRY_TOPIC", view.topic)
                    copy = attrs.evolve(
                        view.to_message(),
                        topic=topic,
                        queue_id=0,
                        properties=encode_properties(properties).encode(),
                        reconsume_times=view.reconsume_times + 1,
                    )
                    self.store(copy)
                    return command.answer(0)
        return command.answer(1, remark="look message by offset failed")

    # ------------------------------------------------------------------ transactions

    async def _end(self, peer: Peer, command: Command) -> Command | None:
        header: EndTransaction = command.header(EndTransaction)
        self.ended.append(header)
        message = self.halves.get(header.commit_log_offset)
        if message is None:
            return command.answer(1, remark="Find prepared transaction message failed")
        if header.commit_or_rollback == 0:
            return None
        del self.halves[header.commit_log_offset]
        if header.commit_or_rollback == 8:
            self.store(attrs.evolve(message, sys_flag=8))
        return command.answer(0)

    def check(self) -> None:
        """Ask producers what became of half messages."""
        for number, (position, message) in enumerate(self.halves.items()):
            named = parse_properties(message.properties)  # type: ignore[arg-type]
            record = self._encoder.encode(message, number, position, _NOW)
            header = CheckTransaction(
                tran_state_table_offset=number,
                commit_log_offset=position,
                msg_id=named["UNIQ_KEY"],
                transaction_id=named["UNIQ_KEY"],
            )
            for peer in self.producers.get(named["PGROUP"], {}).values():
                peer.send(
                    Command.request(
                        RequestCode.CHECK_TRANSACTION_STATE, header, body=record, one_way=True
                    )
                )

    # ------------------------------------------------------------------ reading

    async def _pull(self, peer: Peer, command: Command) -> Command:
        header: Pull = command.header(Pull)
        key = header.topic, header.queue_id
        while True:
            records = self.queues.get(key, [])
            first, end = self.first_offsets.get(key, 0), len(records)
            offset = header.queue_offset
            if offset == end and header.sys_flag & PullFlag.SUSPEND:
                await self._arrived.wait()
                continue
            break
        found = records[offset : offset + header.max_msg_nums] if offset >= first else []
        if found:
            code, following = ResponseCode.SUCCESS, offset + len(found)
        elif first <= offset <= end:
            code, following = ResponseCode.PULL_NOT_FOUND, offset
        else:
            code, following = ResponseCode.PULL_OFFSET_MOVED, min(max(offset, first), end)
        answer = PullAnswer(
            suggest_which_broker_id=0, next_begin_offset=following, min_offset=first, max_offset=end
        )
        return command.answer(code, answer, body=b"".join(found))

    async def _bound(self, peer: Peer, command: Command) -> Command:
        header: QueueOf = command.header(QueueOf)
        key = header.topic, header.queue_id
        is_max = command.code == RequestCode.GET_MAX_OFFSET
        found = len(self.queues.get(key, [])) if is_max else self.first_offsets.get(key, 0)
        if is_max and found and self.hiding_count:
            self.hiding_count -= 1
            found -= 1
        return command.answer(0, OffsetAnswer(offset=found))

    async def _by_time(self, peer: Peer, command: Command) -> Command:
        header: OffsetByTime = command.header(OffsetByTime)
        records = self.queues.get((header.topic, header.queue_id), [])
        times = [MessageView(record).store_timestamp for record in records]
        return command.answer(
            0, OffsetAnswer(offset=sum(each < header.timestamp for each in times))
        )

    async def _offset(self, peer: Peer, command: Command) -> Command:
        header: GroupOffset = command.header(GroupOffset)
        found = self.offsets.get((header.consumer_group, (header.topic, header.queue_id)))
        if found is None:
            return command.answer(ResponseCode.QUERY_NOT_FOUND, remark="Not found")
        return command.answer(0, OffsetAnswer(offset=found))

    async def _commit(self, peer: Peer, command: Command) -> Command:
        header: UpdateGroupOffset = command.header(UpdateGroupOffset)
        key = header.consumer_group, (header.topic, header.queue_id)
        self.offsets[key] = header.commit_offset
        return command.answer(0)

    # ------------------------------------------------------------------ members

    async def _heartbeat(self, peer: Peer, command: Command) -> Command:
        body = parse_body(command.body, "heartbeat")
        client = peer.client_id = body["clientID"]
        for each in body["producerDataSet"]:
            self.producers.setdefault(each["groupName"], {})[client] = peer
        for each in body["consumerDataSet"]:
            group = each["groupName"]
            self.add_topic(f"%RETRY%{group}", 1)
            members = self.members.setdefault(group, {})
            is_new = members.get(client) is not peer
            members[client] = peer
            self.subscriptions[group] = each["subscriptionDataSet"]
            if is_new:
                self._notify(group)
        return command.answer(0)

    def _notify(self, group: str) -> None:
        for peer in self.members.get(group, {}).values():
            header = GroupOf(consumer_group=group)
            peer.send(
                Command.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, one_way=True)
            )

    async def _unregister(self, peer: Peer, command: Command) -> Command:
        header: Unregister = command.header(Unregister)
        if header.producer_group is not None:
            self.producers.get(header.producer_group, {}).pop(header.client_id, None)
        if header.consumer_group is not None:
            self.members.get(header.consumer_group, {}).pop(header.client_id, None)
            self._notify(header.consumer_group)
        return command.answer(0)

    def gone(self, peer: Peer) -> None:
        for peers in self.producers.values():
            if peers.get(peer.client_id or "") is peer:
                del peers[peer.client_id or ""]
        for group, peers in self.members.items():
            if peers.get(peer.client_id or "") is peer:
                del peers[peer.client_id or ""]
                self._notify(group)

    async def _members(self, peer: Peer, command: Command) -> Command:
        header: GroupOf = command.header(GroupOf)
        found = list(self.members.get(header.consumer_group, {}))
        if not found:
            return command.answer(1, remark=f"no consumer for this group, {header.consumer_group}")
        return command.answer(0, body=write_body({"consumerIdList": found}))

    async def _lock(self, peer: Peer, command: Command) -> Command:
        body = parse_body(command.body, "queues")
        client, group = body["clientId"], body["consumerGroup"]
        taken = []
        for each in body["mqSet"]:
            key = group, (each["topic"], each["queueId"])
            if command.code == RequestCode.UNLOCK_BATCH_MQ:
                if self.locks.get(key) == client:
                    del self.locks[key]
            elif self.locks.setdefault(key, client) == client:
                taken.append(each)
        return command.answer(0, body=write_body({"lockOKMQSet": taken}))


class FakeCluster:
    """Brokers ``broker-a``, ``broker-b``, … with a name server; a context manager."""

    def __init__(self, broker_count: int = 1, queue_count: int = 4) -> None:
        names = [f"broker-{chr(ord('a') + number)}" for number in range(broker_count)]
        self.brokers = [FakeBroker(name, queue_count) for name in names]
        self.names = FakeNames(self)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._changed = asyncio.Event()
        for each in (self.names, *self.brokers):
            each.changed = self._has_changed

    def _has_changed(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def until(self, is_so: Callable[[], object]) -> None:
        """Return once something is so, which is looked at whenever a request was answered."""

        async def wait() -> None:
            async with asyncio.timeout(10):
                while not is_so():
                    await self._changed.wait()

        self.call(wait())

    @property
    def broker(self) -> FakeBroker:
        """The first broker."""
        return self.brokers[0]

    @property
    def address(self) -> str:
        """That of the name server."""
        return self.names.address

    def add_topic(self, topic: str, queue_count: int = 4) -> None:
        """Make a topic at all brokers."""
        for each in self.brokers:
            each.add_topic(topic, queue_count)

    def messages(self, topic: str) -> list[MessageView]:
        """What all brokers have of a topic."""
        return [message for each in self.brokers for message in each.messages(topic)]

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Carry something out on the loop of the servers."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(15)

    def do(self, function: Callable[[], None]) -> None:
        """Call a function on the loop of the servers."""

        async def work() -> None:
            function()

        self.call(work())

    def drop_connections(self) -> None:
        """End all connections of clients to brokers."""

        async def drop() -> None:
            for broker in self.brokers:
                for peer in list(broker.peers):
                    peer.writer.transport.abort()

        self.call(drop())

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def __enter__(self) -> Self:
        self._thread.start()
        for each in (self.names, *self.brokers):
            self.call(each.open())
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.names, *self.brokers):
            self.call(each.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
