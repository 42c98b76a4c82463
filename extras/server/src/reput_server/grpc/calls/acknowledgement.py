"""Takes what consumers say of messages that they were handed.

Source: RocketMQ ``AckMessageActivity``, ``ChangeInvisibleDurationActivity``,
``ForwardMessageToDLQActivity``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput_server.grpc.calls.lite import named_handle, renewed_receipt
from reput_server.grpc.calls.receive import checked_invisible_ms
from reput_server.grpc.messagetypes import Code, Refused, m, status
from reput_server.grpc.namespaces import group_of, topic_of

if TYPE_CHECKING:
    from reput_consumer import Handle, PopService
    from reput_server.broker.brokercontext import BrokerContext
    from reput_server.grpc.caller import Caller
    from reput_server.grpc.clients import Clients

_ENTRIES_MAX: Final = 4_096
_AT_ONCE_MAX: Final = 64
"""Entries of one call that are taken on the event loop, at 8 microseconds each."""
_VOID: Final = "the receipt handle is void: the message was handed out again, or is done"
_DONE: Final = status()
_NOT_VALID: Final = status(Code.INVALID_RECEIPT_HANDLE, _VOID)


@attrs.frozen(eq=False)
class _Acks:
    """The acknowledgements of one call."""

    group: str
    entries: list[tuple[str, Handle | None]]
    """Topics and handles; None where a client sent what is not a handle."""
    done: asyncio.Future[list[bool]]


@attrs.define(eq=False, repr=False)
class AckCalls:
    """The calls about one message.

    To take an acknowledgement costs less than to wake a thread for it, and waits for no disk, so it
    is taken on the event loop. While another thread works on the group, one thread takes all that
    have come, and later ones wait until it has.
    """

    context: BrokerContext
    clients: Clients
    _waiting: list[_Acks] = attrs.field(init=False, factory=list)
    _is_busy: bool = attrs.field(init=False, default=False)

    @property
    def _popper(self) -> PopService:
        return self.context.plugin.popper

    async def ack(self, caller: Caller, request: Any) -> Any:
        """Count messages as consumed; each has a status of its own."""
        return _answer(request, await self._taken(*self._read(caller, request)))

    def ack_at_once(self, caller: Caller, request: Any) -> Any | None:
        """Do the same without waiting; return None, and do nothing, if it would have to wait."""
        if self._is_busy or len(request.entries) > _AT_ONCE_MAX:  # earlier ones first
            return None
        group, entries = self._read(caller, request)
        topics = {topic for topic, _ in entries}
        if len(topics) > 1:  # several lite topics
            return None
        handles = [handle for _, handle in entries]
        done = self._popper.ack_at_once(group, "".join(topics), handles)
        return None if done is None else _answer(request, done)

    def _read(self, caller: Caller, request: Any) -> tuple[str, list[tuple[str, Handle | None]]]:
        """Return the group, and the topics and handles; None for what is not a handle."""
        self.clients.find(caller.client_id)
        group, topic = group_of(request.group), topic_of(request.topic)
        if len(request.entries) > _ENTRIES_MAX:
            raise Refused(
                Code.BAD_REQUEST, f"{len(request.entries)} entries; {_ENTRIES_MAX} at most"
            )
        return group, [named_handle(topic, each.receipt_handle) for each in request.entries]

    async def _taken(self, group: str, entries: list[tuple[str, Handle | None]]) -> list[bool]:
        loop = self.context.loop
        acks = _Acks(group, entries, loop.create_future())
        self._waiting.append(acks)
        if not self._is_busy:
            self._is_busy = True
            loop.call_soon(self._begin)  # with what else comes in this turn of the loop
        return await acks.done

    def _begin(self) -> None:
        """Have a thread take all acknowledgements that wait."""
        taken, self._waiting = self._waiting, []
        self._is_busy = bool(taken)
        if not taken:
            return
        try:
            work = self.context.loop.run_in_executor(self.context.pool, self._take, taken)
        except RuntimeError as error:  # no thread can be started, or the server stops
            self._end(taken, error)
        else:
            work.add_done_callback(lambda found: self._end(taken, _result_of(found)))

    def _take(self, taken: list[_Acks]) -> list[list[bool] | Exception]:
        return [self._ack(each) for each in taken]

    def _ack(self, acks: _Acks) -> list[bool] | Exception:
        ack, group = self._popper.ack, acks.group
        try:
            return [
                handle is not None and ack(group, topic, handle) for topic, handle in acks.entries
            ]
        except Exception as error:  # of this call, and of no other
            return error

    def _end(self, taken: list[_Acks], found: list[list[bool] | Exception] | BaseException) -> None:
        results = [found] * len(taken) if isinstance(found, BaseException) else found
        for acks, result in zip(taken, results, strict=True):
            if acks.done.done():
                continue  # the client has gone
            if isinstance(result, BaseException):
                acks.done.set_exception(result)
            else:
                acks.done.set_result(result)
        self._begin()

    async def change(self, caller: Caller, request: Any) -> Any:
        """Move a message's deadline; the handle is another one then."""
        self.clients.find(caller.client_id)
        group = group_of(request.group)
        topic, handle = named_handle(topic_of(request.topic), request.receipt_handle)
        invisible_ms = checked_invisible_ms(request.invisible_duration, 0)
        renewed = handle and await self.context.run(
            self._popper.renew, group, topic, handle, invisible_ms
        )
        if renewed is None:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, _VOID)
        receipt = renewed_receipt(request.receipt_handle, renewed)
        return m.ChangeInvisibleDurationResponse(status=status(), receipt_handle=receipt)

    async def forward(self, caller: Caller, request: Any) -> Any:
        """Put a message to the dead letters of its group."""
        self.clients.find(caller.client_id)
        group = group_of(request.group)
        topic, handle = named_handle(topic_of(request.topic), request.receipt_handle)
        is_done = handle is not None and await self.context.run(
            self._popper.give_up, group, topic, handle
        )
        if not is_done:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, _VOID)
        return m.ForwardMessageToDeadLetterQueueResponse(status=status())


def _answer(request: Any, done: Sequence[bool]) -> Any:
    """Return the answer to acknowledgements, from whether each handle was valid."""
    response = m.AckMessageResponse()
    for each, is_done in zip(request.entries, done, strict=True):
        entry = response.entries.add(message_id=each.message_id, receipt_handle=each.receipt_handle)
        entry.status.CopyFrom(_DONE if is_done else _NOT_VALID)
    if len(set(done)) > 1:
        response.status.CopyFrom(status(Code.MULTIPLE_RESULTS, "the entries have other codes"))
    elif done:
        response.status.CopyFrom(response.entries[0].status)
    else:
        response.status.CopyFrom(status(Code.BAD_REQUEST, "no entries"))
    return response


def _result_of(done: asyncio.Future[Any]) -> Any:
    """Return the result of work on a thread, or its exception."""
    if done.cancelled():
        return ConnectionResetError("the server stops")
    error = done.exception()
    return done.result() if error is None else error
