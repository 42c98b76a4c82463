"""A client of the messaging service by bare stubs, for tests of what the server answers."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import queue
import threading
from collections.abc import Iterator
from typing import Any

import grpc

from reput_server.grpc.messagetypes import m

SERVICE = "/apache.rocketmq.v2.MessagingService/"
WAIT = 30.0
_NUMBERS = itertools.count()


class GrpcClient:
    """One client; a context manager."""

    def __init__(
        self, endpoints: str, client_id: str = "test", credentials: Any = None, **metadata: str
    ) -> None:
        if credentials is None:
            self.channel = grpc.insecure_channel(endpoints)
        else:
            self.channel = grpc.secure_channel(endpoints, credentials)
        self.metadata = [("x-mq-client-id", client_id), *metadata.items()]
        if not client_id:
            self.metadata = self.metadata[1:]
        self.commands: queue.Queue[Any] = queue.Queue()
        self._told: queue.Queue[Any] = queue.Queue()
        self._stream: Any = None

    def call(self, name: str, request: Any, seconds: float = WAIT) -> Any:
        """Make a call with one answer."""
        answer = getattr(m, type(request).__name__.replace("Request", "Response"), None)
        stub = self.channel.unary_unary(
            SERVICE + name, type(request).SerializeToString, (answer or m.StatusResponse).FromString
        )
        return stub(request, timeout=seconds, metadata=self.metadata)

    def stream(self, request: Any, seconds: float = WAIT) -> Any:
        """Begin a call that receives."""
        stub = self.channel.unary_stream(
            SERVICE + "ReceiveMessage",
            m.ReceiveMessageRequest.SerializeToString,
            m.ReceiveMessageResponse.FromString,
        )
        return stub(request, timeout=seconds, metadata=self.metadata)

    def tell(self, settings: Any) -> Any:
        """Tell settings, and return what is answered."""
        if self._stream is None:
            self._told = queue.Queue()
            stub = self.channel.stream_stream(
                SERVICE + "Telemetry",
                m.TelemetryCommand.SerializeToString,
                m.TelemetryCommand.FromString,
            )
            self._stream = stub(iter(self._told.get, None), metadata=self.metadata)
            threading.Thread(target=self._read, args=(self._stream,), daemon=True).start()
        self._told.put(m.TelemetryCommand(settings=settings))
        return self.commands.get(timeout=WAIT)

    def _read(self, stream: Iterator[Any]) -> None:
        try:
            for command in stream:
                self.commands.put(command)
        except grpc.RpcError as error:
            self._stream = None  # settings that are told from now on begin another one
            self.commands.put(error)

    # ------------------------------------------------------------------ what tests say

    def produce(self, *topics: str) -> Any:
        """Be a producer."""
        publishing = m.Publishing(topics=[m.Resource(name=each) for each in topics])
        return self.tell(m.Settings(client_type=1, publishing=publishing))

    def consume(self, group: str, *topics: str, kind: int = 3, tags: str = "*") -> Any:
        """Be a consumer."""
        expression = m.FilterExpression(type=1, expression=tags)
        subscription = m.Subscription(group=m.Resource(name=group))
        for each in topics:
            subscription.subscriptions.add(topic=m.Resource(name=each), expression=expression)
        return self.tell(m.Settings(client_type=kind, subscription=subscription))

    def send(self, topic: str, *bodies: str, **system: Any) -> Any:
        """Send messages in one call."""
        request = m.SendMessageRequest()
        for body in bodies:
            given = {"message_type": 1, "message_id": f"id-{next(_NUMBERS)}", **system}
            request.messages.add(
                topic=m.Resource(name=topic),
                body=body.encode(),
                system_properties=m.SystemProperties(**given),
            )
        return self.call("SendMessage", request)

    def request(self, group: str, topic: str, **fields: Any) -> Any:
        """Return a request to receive."""
        fields = {
            "batch_size": 32,
            "invisible_duration": m.Duration(seconds=30),
            "long_polling_timeout": m.Duration(),
            **fields,
        }
        return m.ReceiveMessageRequest(
            group=m.Resource(name=group),
            message_queue=m.MessageQueue(topic=m.Resource(name=topic)),
            **fields,
        )

    def receive(self, group: str, topic: str, **fields: Any) -> tuple[int, list[Any]]:
        """Receive; return the code, and the messages."""
        code, found = 0, []
        for each in self.stream(self.request(group, topic, **fields)):
            if each.WhichOneof("content") == "status":
                code = each.status.code
            elif each.WhichOneof("content") == "message":
                found.append(each.message)
        return code, found

    def take(self, group: str, topic: str, **fields: Any) -> tuple[int, list[Any]]:
        """Receive what was sent a moment ago: wait until its queue has it."""
        waits = m.Duration(seconds=20)
        return self.receive(group, topic, long_polling_timeout=waits, **fields)

    def ack(self, group: str, topic: str, *messages: Any) -> Any:
        """Acknowledge messages."""
        request = m.AckMessageRequest(group=m.Resource(name=group), topic=m.Resource(name=topic))
        for each in messages:
            system = each.system_properties
            request.entries.add(message_id=system.message_id, receipt_handle=system.receipt_handle)
        return self.call("AckMessage", request)

    def change(self, group: str, topic: str, message: Any, seconds: int) -> Any:
        """Move a message's deadline."""
        return self.call(
            "ChangeInvisibleDuration",
            m.ChangeInvisibleDurationRequest(
                group=m.Resource(name=group),
                topic=m.Resource(name=topic),
                receipt_handle=message.system_properties.receipt_handle,
                invisible_duration=m.Duration(seconds=seconds),
            ),
        )

    def __enter__(self) -> GrpcClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._told.put(None)
        self.channel.close()


def signed(access_key: str, secret: str) -> dict[str, str]:
    """Return the metadata of a client with a key."""
    moment = "20260101T000000Z"
    signature = hmac.new(secret.encode(), moment.encode(), hashlib.sha1).hexdigest()
    text = f"MQv2-HMAC-SHA1 Credential={access_key}, SignedHeaders=x-mq-date-time, "
    return {"x-mq-date-time": moment, "authorization": f"{text}Signature={signature}"}
