"""`GrpcService`: the messaging service of a broker, at one address."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from reput.errors import ReputError
from reput_server.config import is_everywhere
from reput_server.errors import Refusal
from reput_server.grpc.caller import Caller, caller_of
from reput_server.grpc.calls.acknowledgement import AckCalls
from reput_server.grpc.calls.lite import LiteCalls
from reput_server.grpc.calls.receive import ReceiveCalls
from reput_server.grpc.calls.routes import RouteCalls
from reput_server.grpc.calls.send import SendCalls
from reput_server.grpc.calls.telemetry import ClientCalls
from reput_server.grpc.calls.transactions import TransactionCalls
from reput_server.grpc.clients import Clients
from reput_server.grpc.messagetypes import Broken, Code, Refused, m, status
from reput_server.grpc.transport.framing import CallError, RpcStatus
from reput_server.grpc.transport.listener import Listener
from reput_server.grpc.transport.methods import CallHead, Method
from reput_server.protocolservice import CallFault, CallFaultSource, CallFigures
from reput_server.wire.certificates import context_of
from reput_server.wire.encryption import Encryption
from reput_server.wire.ports import bound_to, take_address

if TYPE_CHECKING:
    from reput_client.remoting import Address
    from reput_server.broker.broker import Broker
    from reput_server.config import TlsConfig

logger = logging.getLogger(__name__)

_SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"
_GRACE_SECONDS: Final = 1.0
_BROKEN: Final = "a test asked for a connection that breaks"

Call = Callable[[Caller, Any], Awaitable[Any]]
Stream = Callable[[Caller, Any], AsyncIterator[Any]]


@attrs.define(eq=False, repr=False)
class GrpcService:
    """The service; it shares the event loop of the broker."""

    broker: Broker
    listen: Address
    address: Address | None = attrs.field(init=False, default=None)
    """Where it listens."""
    clients: Clients = attrs.field(init=False)
    call_count: int = attrs.field(init=False, default=0)
    faults: CallFaultSource | None = attrs.field(init=False, default=None)
    """Consulted before each call; None without a test that injects faults."""
    _answered: Counter[tuple[str, int]] = attrs.field(init=False, factory=Counter)
    """Answers by the call's name and the code."""
    _listener: Listener | None = attrs.field(init=False, default=None)
    _transactions: TransactionCalls = attrs.field(init=False)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        context, host = self.broker.context, self.listen[0]
        config = context.config
        encryption = _encryption_of(config.tls)
        own = context.address[0] if is_everywhere(host) else host
        with contextlib.ExitStack() as taken:
            sockets = take_address(self.listen, taken)
            port = bound_to(sockets)[1]
            # All methods first: a client may call as soon as the port is listened on.
            methods = self._methods((config.advertise or own, port))
            listener = Listener(context.loop, methods, config.limits, encryption)
            await listener.start(sockets)
            taken.pop_all()
        self._listener, self.address = listener, (host, port)

    def _methods(self, dialled: Address) -> dict[str, Method]:
        context = self.broker.context
        lite = self.broker.lite
        clients = self.clients = Clients(context, lite.subscriptions)
        routes = RouteCalls(context, dialled)
        sends = SendCalls(self.broker, routes)
        receives = ReceiveCalls(context, clients, routes, self.broker.polls, lite)
        acks = AckCalls(context, clients)
        self._transactions = TransactionCalls(context, clients)
        members = ClientCalls(context, clients, self._transactions)
        unary: dict[str, tuple[Call, Any, Any]] = {
            "QueryRoute": (routes.query_route, m.QueryRouteRequest, m.QueryRouteResponse),
            "QueryAssignment": (
                routes.query_assignment,
                m.QueryAssignmentRequest,
                m.QueryAssignmentResponse,
            ),
            "SendMessage": (sends.send, m.SendMessageRequest, m.SendMessageResponse),
            "RecallMessage": (sends.recall, m.RecallMessageRequest, m.RecallMessageResponse),
            "AckMessage": (acks.ack, m.AckMessageRequest, m.AckMessageResponse),
            "ChangeInvisibleDuration": (
                acks.change,
                m.ChangeInvisibleDurationRequest,
                m.ChangeInvisibleDurationResponse,
            ),
            "ForwardMessageToDeadLetterQueue": (
                acks.forward,
                m.ForwardMessageToDeadLetterQueueRequest,
                m.ForwardMessageToDeadLetterQueueResponse,
            ),
            "EndTransaction": (
                self._transactions.end,
                m.EndTransactionRequest,
                m.EndTransactionResponse,
            ),
            "SyncLiteSubscription": (
                LiteCalls(clients, lite).sync,
                m.SyncLiteSubscriptionRequest,
                m.SyncLiteSubscriptionResponse,
            ),
            "Heartbeat": (members.heartbeat, m.HeartbeatRequest, m.HeartbeatResponse),
            "NotifyClientTermination": (
                members.terminate,
                m.NotifyClientTerminationRequest,
                m.NotifyClientTerminationResponse,
            ),
        }
        unary |= dict.fromkeys(
            ("UpdateOffset", "GetOffset", "QueryOffset"),
            (_unsupported, m.NothingRequest, m.StatusResponse),
        )
        at_once = {"SendMessage": sends.send_at_once, "AckMessage": acks.ack_at_once}
        found = {
            _SERVICE + name: Method(
                request.FromString,
                self._unary(name, call, answer),
                self._at_once(name, at_once[name], answer) if name in at_once else None,
            )
            for name, (call, request, answer) in unary.items()
        }
        for name, stream, request, answer in (
            ("ReceiveMessage", receives.receive, m.ReceiveMessageRequest, m.ReceiveMessageResponse),
            ("PullMessage", _unsupported_stream, m.NothingRequest, m.StatusResponse),
            ("Telemetry", members.telemetry, m.TelemetryCommand, m.TelemetryCommand),
        ):
            found[_SERVICE + name] = Method(
                request.FromString,
                stream=self._streamed(name, stream, answer),
                takes_many=name == "Telemetry",
            )
        return found

    # ------------------------------------------------------------------ what every call passes

    @property
    def _access_keys(self) -> Mapping[str, str]:
        return self.broker.context.config.access_keys

    def _caller(self, head: CallHead) -> Caller:
        self.call_count += 1
        return caller_of(head, self._access_keys)

    def _fault_at(self, name: str) -> CallFault | None:
        """Return how a call goes wrong once it is carried out, if it does.

        Raises:
            Refused: it goes wrong before, with a code.
            Broken: it goes wrong before, without an answer.
        """
        fault = None if self.faults is None else self.faults.take(name)
        if fault is None or fault.carries_out:
            return fault
        if fault.code is None:
            raise Broken
        raise Refused(Code(fault.code), "a fault that a test asked for")

    def _unary(
        self, name: str, call: Call, answer: Any
    ) -> Callable[[CallHead, Any], Awaitable[bytes]]:
        async def handle(head: CallHead, request: Any) -> bytes:
            is_broken, found = False, None
            try:
                caller, fault = self._caller(head), self._fault_at(name)
                found = await call(caller, request)
                is_broken = fault is not None
            except Broken:
                is_broken = True
            except Exception as error:
                found = answer(status=_status_of(name, error))
            if is_broken or found is None:
                raise CallError(RpcStatus.UNAVAILABLE, _BROKEN)
            self._count(name, found)
            return bytes(found.SerializeToString())

        return handle

    def _at_once(
        self, name: str, call: Callable[[Caller, Any], Any], answer: Any
    ) -> Callable[[CallHead, Any], bytes | None]:
        def handle(head: CallHead, request: Any) -> bytes | None:
            if self.faults is not None and self.faults.is_due(name):
                return None
            try:
                found = call(caller_of(head, self._access_keys), request)
            except Exception as error:
                found = answer(status=_status_of(name, error))
            if found is None:
                return None
            self.call_count += 1
            self._count(name, found)
            return bytes(found.SerializeToString())

        return handle

    def _streamed(
        self, name: str, call: Stream, answer: Any
    ) -> Callable[[CallHead, Any], AsyncIterator[bytes]]:
        async def handle(head: CallHead, request: Any) -> AsyncIterator[bytes]:
            is_broken, refused = False, None
            try:
                caller, fault = self._caller(head), self._fault_at(name)
                # Closed here, and not by the collector: it may hold messages.
                async with contextlib.aclosing(cast("Any", call(caller, request))) as answers:
                    async for each in answers:
                        if fault is None:
                            self._count(name, each)
                            made = [each.SerializeToString()]
                            del each  # a client may take long to read it
                            yield made.pop()
                is_broken = fault is not None
            except Broken:
                is_broken = True
            except Exception as error:
                failed = answer(status=_status_of(name, error))
                self._count(name, failed)
                if answer is m.TelemetryCommand:
                    refused = failed.status
                else:
                    yield failed.SerializeToString()
            if refused is not None:  # clients know by gRPC's status that settings are not taken
                is_theirs = refused.code < Code.INTERNAL_SERVER_ERROR
                code = RpcStatus.INVALID_ARGUMENT if is_theirs else RpcStatus.INTERNAL
                raise CallError(code, refused.message)
            if is_broken:
                raise CallError(RpcStatus.UNAVAILABLE, _BROKEN)

        return handle

    def cut_streams(self) -> None:
        """Break the streams by which clients get commands; called on the event loop."""
        for client in self.clients.by_id.values():
            client.cut_streams()

    def _count(self, name: str, answer: Any) -> None:
        if answer.HasField("status"):
            self._answered[name, answer.status.code] += 1

    def figures(self) -> CallFigures:
        """Return what it does; called on the event loop."""
        clients = self.clients.by_id.values()
        return CallFigures(
            len(clients),
            sum(len(each.streams) for each in clients),
            self.broker.polls.count,
            {(name, str(code)): count for (name, code), count in self._answered.items()},
        )

    async def stop(self) -> None:
        """End all calls, and close all connections."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.stop(_GRACE_SECONDS)
            self._transactions.close()
            for client_id in list(self.clients.by_id):
                self.clients.drop(client_id)


def _encryption_of(tls: TlsConfig | None) -> Encryption | None:
    """Return how connections may be encrypted.

    Raises:
        CertificateError: a file cannot be used.
    """
    context = context_of(tls)
    if tls is None or context is None:
        return None
    context.set_alpn_protocols(["h2"])  # clients of gRPC insist on it
    return Encryption(context, is_required=tls.mode == "enforcing")


def _status_of(name: str, error: Exception) -> Any:
    if isinstance(error, Refused):
        return status(error.code, str(error))
    if isinstance(error, Refusal):
        return status(Code.BAD_REQUEST, str(error))
    if isinstance(error, ReputError | OSError):
        logger.warning("call failed call=%s error=%s", name, error)
    else:
        logger.error("call failed call=%s", name, exc_info=error)
    return status(Code.INTERNAL_SERVER_ERROR, str(error) or type(error).__name__)


async def _unsupported(caller: Caller, request: Any) -> Any:
    raise Refused(Code.NOT_IMPLEMENTED, "clients pop here; offsets belong to the group")


async def _unsupported_stream(caller: Caller, request: Any) -> AsyncIterator[Any]:
    yield await _unsupported(caller, request)
