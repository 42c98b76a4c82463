"""`GrpcService`: the messaging service of a broker, at one address."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import grpc

from reput.errors import ReputError
from reput_grpc.caller import Caller, caller_of
from reput_grpc.calls.acknowledging import AckCalls
from reput_grpc.calls.receiving import ReceiveCalls
from reput_grpc.calls.routes import RouteCalls
from reput_grpc.calls.sending import SendCalls
from reput_grpc.calls.telemetry import ClientCalls
from reput_grpc.calls.transactions import TransactionCalls
from reput_grpc.clients import Clients
from reput_grpc.front import Front
from reput_grpc.types import Broken, Code, Refused, m, status
from reput_server.beside import CallFault, CallFigures
from reput_server.errors import Refusal
from reput_server.wire.certificates import context_of

if TYPE_CHECKING:
    from reput_remoting import Address
    from reput_server.broker.broker import Broker
    from reput_server.config import TlsConfig

logger = logging.getLogger(__name__)

__all__ = ["GrpcService"]

_SERVICE: Final = "apache.rocketmq.v2.MessagingService"
_EVERYWHERE: Final = ("0.0.0.0", "::")
"""Hosts that stand for all addresses of the machine, which no client can dial."""
_REQUEST_BYTES: Final = 16 << 20
_ANSWER_BYTES: Final = 8 << 20
"""Of one message of an answer; a message of the store has 4 MiB at most, and its properties."""
_STREAMS: Final = 1_000
"""Of one connection."""
_GRACE_SECONDS: Final = 1.0
_BROKEN: Final = "a test asked for a connection that breaks"
_CALLS: Final = 20_000
"""At once; further ones are refused."""

Call = Callable[[Caller, Any], Awaitable[Any]]
Stream = Callable[[Caller, Any], AsyncIterator[Any]]


@attrs.define(eq=False)
class GrpcService:
    """The service; it shares the event loop of the broker."""

    broker: Broker
    listen: Address
    address: Address | None = attrs.field(init=False, default=None)
    """Where it listens."""
    clients: Clients = attrs.field(init=False)
    call_count: int = attrs.field(init=False, default=0)
    faults: Callable[[str], CallFault | None] = attrs.field(init=False, default=lambda name: None)
    """Asked before each call by its name; what goes wrong with it, if anything."""
    _answered: Counter[tuple[str, str]] = attrs.field(init=False, factory=Counter)
    """Answers by the call's name and the code."""
    _server: Any = attrs.field(init=False, default=None)
    _front: Front | None = attrs.field(init=False, default=None)
    """Where plain and encrypted connections come on one port."""
    _transactions: TransactionCalls = attrs.field(init=False)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        host, port = self.listen
        shown = f"[{host}]" if ":" in host else host
        self._server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", _REQUEST_BYTES),
                ("grpc.max_send_message_length", _ANSWER_BYTES),
                ("grpc.max_concurrent_streams", _STREAMS),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
                ("grpc.http2.max_ping_strikes", 0),
            ],
            maximum_concurrent_rpcs=_CALLS,
        )
        try:
            bound = await self._bind(f"{shown}:{port}")
        except RuntimeError as error:
            raise OSError(f"{shown}:{port} cannot be listened on: {error}") from None
        if not bound:
            raise OSError(f"{shown}:{port} cannot be listened on: another program listens there")
        self.address = host, bound
        context = self.broker.context
        own = context.address[0] if host in _EVERYWHERE else host
        dialled = context.config.advertise or own, bound
        self._server.add_generic_rpc_handlers((self._handlers(dialled),))
        await self._server.start()

    async def _bind(self, address: str) -> int:
        """Take the address, encrypted or not, or the two of them behind one; return the port."""
        config, server = self.broker.context.config, self._server
        if config.tls is None or config.tls.mode == "disabled":
            return int(server.add_insecure_port(address))
        credentials = _credentials_of(config.tls)
        if config.tls.mode == "enforcing":
            return int(server.add_secure_port(address, credentials))
        front = self._front = Front(config.limits.connections)
        server.add_insecure_port(f"unix:{front.plain}")
        server.add_secure_port(f"unix:{front.encrypted}", credentials)
        return await front.start(self.listen)

    def _handlers(self, dialled: Address) -> Any:
        context = self.broker.context
        clients = self.clients = Clients(context)
        routes = RouteCalls(context, dialled)
        sends = SendCalls(self.broker, routes)
        receives = ReceiveCalls(context, clients, routes, self.broker.polls)
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
            "Heartbeat": (members.heartbeat, m.HeartbeatRequest, m.HeartbeatResponse),
            "NotifyClientTermination": (
                members.terminate,
                m.NotifyClientTerminationRequest,
                m.NotifyClientTerminationResponse,
            ),
        }
        unary |= dict.fromkeys(
            ("UpdateOffset", "GetOffset", "QueryOffset", "SyncLiteSubscription"),
            (_unsupported, m.NothingRequest, m.StatusResponse),
        )
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._unary(name, call, answer), request.FromString, answer.SerializeToString
            )
            for name, (call, request, answer) in unary.items()
        }
        handlers["ReceiveMessage"] = grpc.unary_stream_rpc_method_handler(
            self._streamed("ReceiveMessage", receives.receive, m.ReceiveMessageResponse),
            m.ReceiveMessageRequest.FromString,
            m.ReceiveMessageResponse.SerializeToString,
        )
        handlers["PullMessage"] = grpc.unary_stream_rpc_method_handler(
            self._streamed("PullMessage", _unsupported_stream, m.StatusResponse),
            m.NothingRequest.FromString,
            m.StatusResponse.SerializeToString,
        )
        handlers["Telemetry"] = grpc.stream_stream_rpc_method_handler(
            self._streamed("Telemetry", members.telemetry, m.TelemetryCommand),
            m.TelemetryCommand.FromString,
            m.TelemetryCommand.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(_SERVICE, handlers)

    # ------------------------------------------------------------------ what every call passes

    def _caller(self, context: Any) -> Caller:
        self.call_count += 1
        return caller_of(context, self.broker.context.config.access_keys)

    def _fault_at(self, name: str) -> CallFault | None:
        """Return how a call goes wrong once it is carried out, if it does.

        Raises:
            Refused: it goes wrong before, with a code.
            Broken: it goes wrong before, without an answer.
        """
        fault = self.faults(name)
        if fault is None or fault.carries_out:
            return fault
        if fault.code is None:
            raise Broken
        raise Refused(Code(fault.code), "a fault that a test asked for")

    def _unary(self, name: str, call: Call, answer: Any) -> Any:
        async def handle(request: Any, context: Any) -> Any:
            is_broken, found = False, None
            try:
                caller, fault = self._caller(context), self._fault_at(name)
                found = await call(caller, request)
                is_broken = fault is not None
            except Broken:
                is_broken = True
            except Exception as error:
                found = answer(status=_status_of(name, error))
            if is_broken:
                await context.abort(grpc.StatusCode.UNAVAILABLE, _BROKEN)
            self._count(name, found)
            return found

        return handle

    def _streamed(self, name: str, call: Stream, answer: Any) -> Any:
        async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
            is_broken, refused = False, None
            try:
                caller, fault = self._caller(context), self._fault_at(name)
                async for each in call(caller, request):
                    if fault is None:
                        self._count(name, each)
                        yield each
                is_broken = fault is not None
            except Broken:
                is_broken = True
            except Exception as error:
                failed = answer(status=_status_of(name, error))
                self._count(name, failed)
                if answer is m.TelemetryCommand:
                    refused = failed.status
                else:
                    yield failed
            if refused is not None:  # clients know by gRPC's status that settings are not taken
                is_theirs = refused.code < Code.INTERNAL_SERVER_ERROR
                code = grpc.StatusCode.INVALID_ARGUMENT if is_theirs else grpc.StatusCode.INTERNAL
                await context.abort(code, refused.message)
            if is_broken:
                await context.abort(grpc.StatusCode.UNAVAILABLE, _BROKEN)

        return handle

    def cut_streams(self) -> None:
        """Break the streams by which clients hear of the server; called on the event loop."""
        for client in self.clients.by_id.values():
            client.cut_streams()

    def _count(self, name: str, answer: Any) -> None:
        if answer.HasField("status"):
            self._answered[name, str(answer.status.code)] += 1

    def figures(self) -> CallFigures:
        """Return what it does; called on the event loop."""
        clients = self.clients.by_id.values()
        return CallFigures(
            len(clients),
            sum(len(each.streams) for each in clients),
            self.broker.polls.count,
            dict(self._answered),
        )

    async def stop(self) -> None:
        """End all calls, and close all connections."""
        server, self._server = self._server, None
        front, self._front = self._front, None
        if front is not None:
            await front.stop()
        if server is not None:
            await server.stop(_GRACE_SECONDS)
            self._transactions.close()
            for client_id in list(self.clients.by_id):
                self.clients.drop(client_id)


def _credentials_of(tls: TlsConfig) -> Any:
    context_of(tls)  # names a file that cannot be used
    authority = None if tls.client_ca is None else Path(tls.client_ca).read_bytes()
    pair = Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes()
    return grpc.ssl_server_credentials(
        [pair], root_certificates=authority, require_client_auth=authority is not None
    )


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
