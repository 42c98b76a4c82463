"""`PutPath`: takes a put through the plugins' hooks, the encoder, the log, and a flush."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from reput.errors import (
    FlushDiskTimeoutError,
    MessageTooLargeError,
    PluginError,
    PutError,
    ServiceNotAvailableError,
)
from reput.log.writer.appender import rows_of_columns, rows_of_messages
from reput.log.writer.receipts import BatchReceipt, Receipt
from reput.plugin.base import Plugin
from reput.plugin.putinterest import PutInterest, concerns_any, concerns_columns, united
from reput.record.encoding.batchencoder import Columns
from reput.record.layout import BLANK_MIN_SIZE
from reput.record.messages.message import (
    Message,
    encode_property_text,
    plain_message,
    waits_for_disk,
)
from reput.signalsafe import new_lock
from reput.store.operations.arguments import listed

if TYPE_CHECKING:
    from reput.log.writer.appender import PutAtOnce
    from reput.log.writer.commitlog import CommitLog
    from reput.record.encoding.encoder import TakeTurns
    from reput.store.operations.activeplugins import ActivePlugins

logger = logging.getLogger(__name__)

_NOTHING: Final = PutInterest()
_NO_NAMES: Final = _NOTHING.names()
_QUEUES_MAX: Final = 1 << 16


@attrs.frozen(eq=False)
class PutHook:
    """A plugin's `reput_put`."""

    name: str
    """Name of the plugin."""
    call: Callable[..., Sequence[Message] | None]
    interest: PutInterest | None = None
    """Which messages it must see; None for all."""


@attrs.frozen(eq=False)
class DirectPuts:
    """Which messages go to the log without a call of a plugin, and what puts these."""

    put: Callable[[Message], Receipt]
    """`reput.Store.put`."""
    put_at_once: PutAtOnce | None
    """Puts a message in one step; None if the engine takes the steps one by one."""
    topics: frozenset[str]
    """Plugins must see messages of these topics before they are stored."""
    properties: frozenset[str]
    """Likewise messages with one of these properties."""


@attrs.frozen(eq=False)
class _Hooks:
    """The hooks of one moment, at least one, in the order in which they are called."""

    all: tuple[PutHook, ...]
    interest: PutInterest | None
    """Which messages any of them must see; None for all."""
    names: tuple[frozenset[str], frozenset[str]] | None
    """See `PutInterest.names`."""

    @classmethod
    def of(cls, hooks: Sequence[PutHook]) -> _Hooks | None:
        if not hooks:
            return None
        interest = united(hook.interest for hook in hooks)
        return cls(tuple(hooks), interest, None if interest is None else interest.names())

    def cover(self, messages: Sequence[Message] | Columns) -> bool:
        """Whether a hook must see any of ``messages``; if not, columns need not be split."""
        if self.names is None:
            return True
        if isinstance(messages, Columns):
            return concerns_columns(messages, *self.names)
        return concerns_any(messages, *self.names)

    def changed(self, messages: Sequence[Message], take_turns: TakeTurns) -> Sequence[Message]:
        """Return the messages as the hooks change them."""
        # Built-in types only, as plugins make keys, paths and texts of a message's values; likewise
        # the queue, which plugins write into other messages.
        messages = [_with_queue(plain_message(message), take_turns) for message in messages]
        for hook in self.all:
            try:
                changed = hook.call(messages=messages)
            except (SystemExit, GeneratorExit) as error:
                # A plugin refuses a put by an exception, but these two would end the producer.
                raise PluginError(hook.name, f"reput_put raised {error!r}") from error
            if changed is not None:
                if len(changed) != len(messages):
                    reason = f"reput_put returned {len(changed)} messages for {len(messages)}"
                    raise PluginError(hook.name, reason)
                messages = changed
        return messages


class PutPath:
    """The puts of one store. Thread-safe."""

    def __init__(self, log: CommitLog, active: ActivePlugins) -> None:
        self._log = log
        self._active = active
        self._config = log.config
        self._is_sync = log.config.flush == "sync"
        self._append = log.append
        self._prepare = log.encoder.prepare
        # Held while `use` asks the plugins, so that the last answer counts.
        self._lock = new_lock()
        self._hooks: _Hooks | None = None
        """Replaced as a whole."""
        self._put_at_once: PutAtOnce | None = None
        """Replaced as a whole; None if a hook must see all messages, or if the engine has none."""
        self._has_counts = False
        self._asking = threading.local()
        """The plugins that are asking by `check_for`, one for another, on each thread."""
        self.direct: DirectPuts | None = None
        """See `reput.Store.direct_puts`."""
        self.use()

    # ------------------------------------------------------------------ hooks

    def use(self) -> None:
        """From the next put on, use the plugins that are active now, as they are interested now."""
        active = self._active
        with self._lock:
            found = []
            for name, hook in active.set.having("put"):
                runner = active.find(name)
                if runner is not None:
                    interest = _interest_of(name, active.objects.get(name))
                    found.append(
                        _refusing(name, interest)
                        if runner.is_broken
                        else PutHook(name, hook, interest)
                    )
            hooks = self._hooks = _Hooks.of([hook for hook in found if hook.interest != _NOTHING])
            names = _NO_NAMES if hooks is None else hooks.names
            put_at_once = None if names is None else self._log.put_at_once(*names)
            self._put_at_once = put_at_once
            self.direct = None if names is None else DirectPuts(self.put, put_at_once, *names)
            counts: dict[str, int] = {}
            plugins = active.set.plugins
            for name in plugins:
                if plugins[name].__class__.queue_counts is not Plugin.queue_counts:
                    counts |= _queue_counts_of(name, plugins[name])
            if counts or self._has_counts:
                self._log.appender.set_queue_counts(counts)
                self._has_counts = True

    # ------------------------------------------------------------------ putting

    def put(self, message: Message, *, wait: bool = True) -> Receipt:
        """See `reput.Store.put`."""
        put_at_once = self._put_at_once
        if put_at_once is not None:
            receipt = put_at_once(message)
            if receipt is not NotImplemented:
                if self._is_sync and wait and _waits_for_disk(message):
                    self._wait_durable(receipt)
                return receipt
        hooks = self._hooks
        if hooks is not None and (hooks.interest is None or hooks.interest.covers_message(message)):
            message = hooks.changed([message], self._log.encoder.take_turns)[0]
        prepared = self._prepare(message)
        receipt = self._append(prepared)
        if self._is_sync and wait and waits_for_disk(prepared[7]):
            self._wait_durable(receipt)
        return receipt

    def put_many(
        self, messages: Sequence[Message] | Columns, *, whole: bool = False, wait: bool = True
    ) -> BatchReceipt:
        """See `reput.Store.put_many`."""
        receipt = self._put_many(messages, self._hooks, whole=whole, is_strict=True)
        if self._is_sync and wait and len(receipt):
            self._wait_durable(receipt)
        return receipt

    def in_order(self, message: Message, key: str | int) -> Message:
        """Return a message with the queue of a key; see `reput.Store.put`."""
        from reput.record.encoding.orderedqueues import message_in_order

        return message_in_order(message, key, self._log.appender.queue_count)

    def all_in_order(self, messages: Any, keys: Any) -> Columns | list[Message]:
        """Return messages with the queues of their keys; see `reput.Store.put_many`."""
        from reput.record.encoding.orderedqueues import columns_in_order, messages_in_order

        queue_count = self._log.appender.queue_count
        if isinstance(messages, Columns):
            return columns_in_order(messages, keys, queue_count)
        messages = listed("messages", messages, "reput.Message, or reput.Columns,")
        return messages_in_order(messages, keys, queue_count)

    def next_queue(self, topic: str) -> int:
        """Return the queue whose turn it is to get a message of a topic."""
        return self._log.encoder.take_turns(topic, 1)[0]

    def put_for(self, plugin: str, messages: Sequence[Message]) -> BatchReceipt:
        """Append messages on behalf of a plugin: its own ``reput_put`` is skipped.

        Does not wait for a flush. Messages that fit into one file are stored in one: all or none.

        Raises:
            PutError: as for `put`.
        """
        return self._put_many(messages, self._hooks_without(plugin), whole=True)

    def check_for(self, plugin: str, messages: Sequence[Message]) -> None:
        """Refuse what `put_for` would refuse because of its content, and store nothing.

        Plugins that ask in their ``reput_put`` are not called for each other's questions.

        Raises:
            PutError: as for `put`.
        """
        before: tuple[str, ...] = getattr(self._asking, "plugins", ())
        self._asking.plugins = asking = (*before, plugin)
        try:
            hooks = self._hooks_without(*asking)
            if hooks is not None and hooks.cover(messages):
                messages = hooks.changed(messages, self._log.encoder.take_turns)
        finally:
            self._asking.plugins = before
        for message in messages:
            self._log.check(self._prepare(message))

    def _hooks_without(self, *plugins: str) -> _Hooks | None:
        hooks = self._hooks
        if hooks is None:
            return None
        return _Hooks.of([hook for hook in hooks.all if hook.name not in plugins])

    def _put_many(
        self,
        messages: Sequence[Message] | Columns,
        hooks: _Hooks | None,
        *,
        whole: bool,
        is_strict: bool = False,
    ) -> BatchReceipt:
        if not isinstance(messages, list | tuple | Columns):
            messages = listed("messages", messages, "reput.Message, or reput.Columns,")
        encoder = self._log.encoder
        if hooks is not None and hooks.cover(messages):
            rows = messages.to_messages() if isinstance(messages, Columns) else messages
            messages = hooks.changed(rows, encoder.take_turns)
        if isinstance(messages, Columns):
            prepared = rows_of_columns(messages, encoder, self._log.appender)
            if prepared is None:
                messages = messages.to_messages()
        else:
            prepared = rows_of_messages(messages, encoder, self._log.appender)
        if prepared is None:
            # What columns cannot hold: IPv6 hosts, light queues, record checksums.
            each = [self._prepare(message) for message in messages]  # type: ignore[union-attr]
            if whole and is_strict:
                self._require_one_file(sum(one[0] for one in each))
            return BatchReceipt.of(self._log, self._log.append_each(each, whole=whole))
        if whole and is_strict:
            self._require_one_file(int(prepared.size.sum()))
        return self._log.append_many(prepared, whole=whole)

    def _require_one_file(self, size: int) -> None:
        limit = self._log.file_size - BLANK_MIN_SIZE
        if size > limit:
            reason = "bytes of records that are to be stored as a whole, in files of this size"
            raise MessageTooLargeError("messages", size, limit, reason)

    def _wait_durable(self, receipt: Receipt | BatchReceipt) -> None:
        timeout = self._config.flush_timeout_ms
        try:
            if not self._log.wait_flushed(receipt.end_offset, timeout / 1000):
                raise FlushDiskTimeoutError(
                    "msg_id", receipt.msg_id, None, f"stored, but not on disk after {timeout} ms"
                )
        except PutError as error:
            stored = receipt
            if isinstance(stored, Receipt):
                stored = BatchReceipt.of(self._log, [stored])
            stored.note_in(error)
            raise


def _with_queue(message: Message, take_turns: TakeTurns) -> Message:
    if message.queue_id is not None:
        return message
    return attrs.evolve(message, queue_id=take_turns(message.topic, 1)[0])


def _waits_for_disk(message: Message) -> bool:
    """Whether a message that was put at once waits, as most do, for the disk."""
    return message.properties is None or waits_for_disk(encode_property_text(message))


def _refusing(name: str, interest: PutInterest | None) -> PutHook:
    """Return the hook of a plugin that could not be opened.

    It refuses messages that ask for the plugin by a property: others would be stored as if they
    asked for nothing, and a delayed message be seen at once.
    """
    asked = _NOTHING if interest is None else PutInterest(interest.properties)

    def refuse(messages: Sequence[Message]) -> None:
        if any(map(asked.covers_message, messages)):
            reason = f"plugin {name} could not be opened, and the message asks for it"
            raise ServiceNotAvailableError("properties", None, None, reason)

    return PutHook(name, refuse, asked)


def _interest_of(name: str, plugin: Any) -> PutInterest | None:
    """Return which messages a plugin's `reput_put` must see; None for all."""
    try:
        found = None if plugin is None else plugin.put_interest
    except Exception as error:  # a plugin may raise anything: it then sees all messages
        logger.error("interest in puts not known plugin=%s error=%r", name, error)
        return None
    return found if isinstance(found, PutInterest) else None


def _queue_counts_of(name: str, plugin: Any) -> dict[str, int]:
    """Return how many queues the topics have that a plugin knows."""
    try:
        counts = dict(plugin.queue_counts)
        for topic, count in counts.items():
            if type(topic) is not str or type(count) is not int or not 1 <= count <= _QUEUES_MAX:
                raise ValueError(f"{topic!r} cannot have {count!r} queues")
        return counts
    except Exception as error:  # likewise; the topics then have the usual number of queues
        logger.error("queues of topics not known plugin=%s error=%r", name, error)
        return {}
