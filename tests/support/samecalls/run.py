"""`CallRun`: the script's calls to one server of MessagingService v2, and every answer."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import attrs
import grpc
from grpcclient import SERVICE

from reput_server.grpc.messagetypes import m

_SECONDS = 30.0
_ANSWERS = {
    "QueryRoute": m.QueryRouteResponse,
    "QueryAssignment": m.QueryAssignmentResponse,
    "SendMessage": m.SendMessageResponse,
    "RecallMessage": m.RecallMessageResponse,
    "AckMessage": m.AckMessageResponse,
    "ChangeInvisibleDuration": m.ChangeInvisibleDurationResponse,
    "ForwardMessageToDeadLetterQueue": m.ForwardMessageToDeadLetterQueueResponse,
    "EndTransaction": m.EndTransactionResponse,
    "Heartbeat": m.HeartbeatResponse,
    "NotifyClientTermination": m.NotifyClientTerminationResponse,
}


@attrs.frozen
class CallExchange:
    """One call of the script, and what came of it."""

    name: str
    answers: tuple[Any, ...]
    """One of a call with one answer; all that a stream sent."""
    status: str = "OK"
    """gRPC's own."""


@attrs.frozen
class Receive:
    """A call that receives, and may wait for seconds; others of a part go at the same time."""

    name: str
    request: Any
    who: str
    seconds: float = _SECONDS


@attrs.define(eq=False)
class CallRun:
    """Makes the script's calls, one after the other, and keeps the answers by name."""

    endpoints: str
    now_ms: int = attrs.field(factory=lambda: time.time_ns() // 1_000_000)
    exchanges: dict[str, CallExchange] = attrs.field(factory=dict)
    _channel: grpc.Channel = attrs.field(init=False)
    _streams: dict[str, queue.Queue[Any]] = attrs.field(factory=dict)
    """What is sent on the stream of a client."""
    _told: dict[str, queue.Queue[Any]] = attrs.field(factory=dict)
    """What came on the stream of a client."""
    _never: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self._channel = grpc.insecure_channel(self.endpoints)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self._streams.values():
            stream.put(None)
        self._channel.close()

    def ask(
        self,
        name: str,
        call: str,
        request: Any,
        who: str = "c",
        metadata: Mapping[str, str] | None = None,
    ) -> Any:
        """Make a call with one answer, keep it under ``name``, and return it; None if it failed."""
        stub = self._channel.unary_unary(
            SERVICE + call, type(request).SerializeToString, _ANSWERS[call].FromString
        )
        if "endpoints" in request.DESCRIPTOR.fields_by_name and not request.HasField("endpoints"):
            host, _, port = self.endpoints.rpartition(":")  # as clients do
            request.endpoints.scheme = 1
            request.endpoints.addresses.add(host=host, port=int(port))
        headers = _metadata(who) if metadata is None else [*metadata.items()]
        try:
            answer = stub(request, timeout=_SECONDS, metadata=headers)
        except grpc.RpcError as error:
            self._keep(CallExchange(name, (), error.code().name))
            return None
        self._keep(CallExchange(name, (answer,)))
        return answer

    def receive(self, *receives: Receive) -> list[list[Any]]:
        """Make calls that receive, all at the same time; return the messages of each."""
        with ThreadPoolExecutor(len(receives)) as pool:
            exchanges = list(pool.map(self._receive, receives))
        for each in exchanges:
            self._keep(each)
        return [
            [answer.message for answer in each.answers if answer.HasField("message")]
            for each in exchanges
        ]

    def _receive(self, receive: Receive) -> CallExchange:
        stub = self._channel.unary_stream(
            SERVICE + "ReceiveMessage",
            m.ReceiveMessageRequest.SerializeToString,
            m.ReceiveMessageResponse.FromString,
        )
        found: list[Any] = []
        try:
            metadata = _metadata(receive.who)
            found.extend(stub(receive.request, timeout=receive.seconds, metadata=metadata))
        except grpc.RpcError as error:
            return CallExchange(receive.name, tuple(found), error.code().name)
        return CallExchange(receive.name, tuple(found))

    def tell(self, name: str, command: Any, who: str) -> None:
        """Send a command on the stream of a client; keep the answer, or how the stream ended."""
        if who not in self._streams:
            self._streams[who], self._told[who] = queue.Queue(), queue.Queue()
            stub = self._channel.stream_stream(
                SERVICE + "Telemetry",
                m.TelemetryCommand.SerializeToString,
                m.TelemetryCommand.FromString,
            )
            stream = stub(iter(self._streams[who].get, None), metadata=_metadata(who))
            threading.Thread(target=_read, args=(stream, self._told[who]), daemon=True).start()
        self._streams[who].put(command)
        found = self._told[who].get(timeout=_SECONDS)
        if isinstance(found, str):
            del self._streams[who], self._told[who]
            self._keep(CallExchange(name, (), found))
        else:
            self._keep(CallExchange(name, (found,)))

    def leave(self, who: str) -> None:
        """End the stream of a client."""
        self._streams.pop(who).put(None)
        self._told.pop(who).get(timeout=_SECONDS)

    def pause(self, seconds: float) -> None:
        """Let time go by for a server that cannot be asked whether it is ready."""
        self._never.wait(seconds)

    def _keep(self, exchange: CallExchange) -> None:
        if exchange.name in self.exchanges:
            raise ValueError(f"two calls of the script are named {exchange.name!r}")
        self.exchanges[exchange.name] = exchange


def _metadata(who: str) -> list[tuple[str, str]]:
    return [
        ("x-mq-client-id", who),
        ("x-mq-language", "JAVA"),
        ("x-mq-protocol", "v2"),
        ("x-mq-client-version", "5.2.0"),
    ]


def _read(stream: Iterable[Any], told: queue.Queue[Any]) -> None:
    try:
        for command in stream:
            told.put(command)
        told.put("OK")
    except grpc.RpcError as error:
        told.put(error.code().name)
