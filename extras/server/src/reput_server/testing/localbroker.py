"""`LocalBroker`: a broker and a name server that live as long as a test.

with LocalBroker() as broker:
    ...  # a program that sends to broker.name_server
    assert [message.body for message in broker.messages("orders")] == [b"one book"]
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import tempfile
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

import reput
from reput_client.remoting import Address
from reput_server.config import ServerConfig
from reput_server.errors import ServerError
from reput_server.server import Server, serving
from reput_server.testing.callfaults import CallFaults
from reput_server.testing.faults import Faults
from reput_server.wire.ports import Ports
from reput_tools.offline import SCHEDULE_TOPIC, SYSTEM_PREFIXES

if TYPE_CHECKING:
    from reput.record import Message, MessageView
    from reput_consumer import ConsumerPlugin

_ANYWHERE: Final[Address] = ("127.0.0.1", 0)
_MEMORY: Final = "/dev/shm"
_PLUGINS: Final = ("consumequeue", "consumer", "filter", "index", "schedule", "transaction")
_NEEDED: Final = frozenset({"consumequeue", "consumer"})
_CONFIG: Final[dict[str, Any]] = {
    # A largest body and its properties fit; files take only the memory that is written.
    "commitlog": {"file_size": 16 << 20, "max_light_queues": 20_000},
    "consumequeue": {"units_per_file": 10_000},
}
_NOT_RUNNING: Final = "the broker is not running: use it inside of its with block"
_AT_ONCE: Final = 1_000
_LOOK_SECONDS: Final = 0.01
_HIDDEN: Final = ("%RETRY%", "%DLQ%", "%LMQ%", SCHEDULE_TOPIC, *SYSTEM_PREFIXES)


class _Clock:
    """The system's time, and how far a test has moved it."""

    def __init__(self) -> None:
        self.moved_ms = 0

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.moved_ms


class LocalBroker:
    """A broker with its name server, on free ports of loopback; a context manager.

    Its store is in memory where the system has such a place, and is gone at the end. Not to be used
    from several threads at once; its clients may be anywhere.
    """

    def __init__(
        self,
        *,
        listen: Address = _ANYWHERE,
        name_server: Address = _ANYWHERE,
        grpc: bool | Address = False,
        **options: Any,
    ) -> None:
        """Make a broker; entering its block starts it.

        Args:
            listen: where it listens, host and port; port 0 for a free one.
            name_server: likewise, of the name server.
            grpc: whether it also serves clients of RocketMQ 5, or where; needs ``reput-server``.
            options: others of `reput_server.ServerConfig`.
        """
        if grpc:
            options["grpc"] = _ANYWHERE if grpc is True else grpc
            options.setdefault("grpc_from_beginning", True)
        self._config = ServerConfig(listen=listen, name_server=name_server, **options)
        self._clock = _Clock()
        self._open: contextlib.ExitStack | None = None
        self._store: reput.Store | None = None
        self._server: Server | None = None
        self._faults: Faults | None = None
        self._call_faults = CallFaults()

    # ------------------------------------------------------------------ where it is

    @property
    def name_server(self) -> str:
        """``host:port`` of the name server, for clients (``namesrvAddr``)."""
        return _text(self._running.name_server)

    @property
    def address(self) -> str:
        """``host:port`` of the broker."""
        return _text(self._running.address)

    @property
    def endpoints(self) -> str:
        """``host:port`` for clients of RocketMQ 5.

        Raises:
            ServerError: the broker was made without ``grpc=True``.
        """
        service = self._running.grpc
        if service is None:
            raise ServerError("the broker serves no gRPC: use LocalBroker(grpc=True)")
        return _text(service.address)

    @property
    def store(self) -> reput.Store:
        """The store that the broker serves; another one after `clear`."""
        if self._store is None:
            raise ServerError(_NOT_RUNNING)
        return self._store

    @property
    def faults(self) -> Faults:
        """What can be made to go wrong."""
        if self._faults is None:
            raise ServerError(_NOT_RUNNING)
        return self._faults

    @property
    def call_faults(self) -> CallFaults:
        """What can be made to go wrong for clients of RocketMQ 5."""
        return self._call_faults

    @property
    def _running(self) -> Server:
        if self._server is None:
            raise ServerError(_NOT_RUNNING)
        return self._server

    # ------------------------------------------------------------------ messages

    def put(self, *messages: Message) -> None:
        """Store messages, as if a producer had sent them; they can be read when this returns."""
        self.store.put_many(messages)
        self.store.wait_dispatched()

    def messages(self, topic: str) -> list[MessageView]:
        """Return all messages of a topic, in the order in which they were stored."""
        store = self.store
        store.wait_dispatched()
        found: list[MessageView] = []
        for queue in store.queues():
            offset = queue.min_queue_offset
            while queue.topic == topic and offset < queue.max_queue_offset:
                read = store.read(topic, queue.queue_id, offset, _AT_ONCE)
                found += read.messages
                if read.next_queue_offset <= offset:
                    break
                offset = read.next_queue_offset
        return sorted(found, key=lambda message: message.physical_offset)

    def create_topic(self, topic: str, *, message_type: str = "NORMAL", queues: int = 4) -> None:
        """Create a topic, which clients of RocketMQ 5 do not do by themselves.

        Args:
            topic: its name.
            message_type: ``"NORMAL"``, ``"FIFO"``, ``"DELAY"``, ``"TRANSACTION"``, ``"LITE"``,
                ``"PRIORITY"`` or ``"MIXED"``: what those clients may send to it.
            queues: how many queues it has.
        """
        from reput_consumer import TopicSettings

        self._plugin.topics.put(
            TopicSettings(
                topic=topic,
                read_queue_nums=queues,
                write_queue_nums=queues,
                attributes={"message.type": message_type},
            )
        )

    def create_group(
        self,
        group: str,
        *,
        ordered: bool = False,
        retries: int = 16,
        parent: str | None = None,
    ) -> None:
        """Create a consumer group.

        Args:
            group: its name.
            ordered: whether clients of RocketMQ 5 read each queue in order.
            retries: how often a message comes back before it becomes a dead letter.
            parent: the topic whose lite topics the group reads; None for other groups.
        """
        from reput_consumer import GroupSettings

        self._plugin.subscription_groups.put(
            GroupSettings(
                group=group,
                consume_message_orderly=ordered,
                retry_max_times=retries,
                attributes={} if parent is None else {"lite.bind.topic": parent},
            )
        )

    @property
    def _plugin(self) -> ConsumerPlugin:
        return self.store.plugin(_consumer_plugin())

    def topics(self) -> list[str]:
        """Return the topics that have messages, sorted; without those of the system."""
        self.store.wait_dispatched()
        names = {queue.topic for queue in self.store.queues()}
        return sorted(name for name in names if not name.startswith(_HIDDEN))

    def wait_for(self, group: str, *, seconds: float = 30.0) -> None:
        """Return when a consumer group has consumed everything, retries included.

        RocketMQ's clients commit their offsets every five seconds, and at their end.

        Raises:
            TimeoutError: it has not, in that time; the text says what is left in which queue.
        """
        deadline, pause = time.monotonic() + seconds, threading.Event()
        while left := self._left_for(group):
            if time.monotonic() > deadline:
                raise TimeoutError(f"group {group!r} has not consumed all in {seconds} s: {left}")
            pause.wait(_LOOK_SECONDS)

    def _left_for(self, group: str) -> str:
        """Say what a group has not consumed; nothing if it has consumed all."""
        self.store.wait_dispatched()
        progress = self._plugin.progress(group)
        if not any(not queue.topic.startswith("%RETRY%") for queue in progress.queues):
            return "it has no offsets yet"
        return ", ".join(
            f"{queue.lag} in {queue.topic}/{queue.queue_id}"
            for queue in progress.queues
            if queue.lag
        )

    # ------------------------------------------------------------------ time, beginning, end

    def forward(self, time_: float | dt.timedelta) -> None:
        """Have time go by for the broker at once: seconds, or a `timedelta`.

        Messages due by then, such as delayed ones, are delivered soon after.
        """
        seconds = time_.total_seconds() if isinstance(time_, dt.timedelta) else float(time_)
        if seconds < 0:
            raise ValueError(f"forward {seconds} s: time goes by forwards alone")
        self.store.wait_dispatched()  # a recall that was answered counts before time goes by
        self._clock.moved_ms += round(seconds * 1_000)
        self.store.work()

    def clear(self) -> None:
        """Forget all messages, topics, groups, faults, and the time that went by.

        Clients that are still connected have to connect again, at the same addresses.
        """
        server = self._running
        assert server.address is not None
        assert server.name_server is not None
        # Clients find the next broker where this one was.
        config = attrs.evolve(self._config, listen=server.address, name_server=server.name_server)
        if server.grpc is not None:
            config = attrs.evolve(config, grpc=server.grpc.address)
        self._end()
        self._begin(config)

    def _begin(self, config: ServerConfig) -> None:
        self._clock.moved_ms = 0
        with contextlib.ExitStack() as opening:
            memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
            directory = opening.enter_context(
                tempfile.TemporaryDirectory(prefix="reput-broker-", dir=memory)
            )
            ports = opening.enter_context(Ports.take(config))
            log = {**_CONFIG["commitlog"], **ports.log_options()}
            self._store = opening.enter_context(
                reput.open(
                    os.path.join(directory, "store"),
                    plugins=_installed(),
                    config={**_CONFIG, "commitlog": log},
                    clock=self._clock,
                )
            )
            self._server = opening.enter_context(serving(self._store, config, ports=ports))
            assert self._server.service is not None
            self._faults = Faults(self._server.service)
            self._call_faults = CallFaults(self._server.grpc, self._server.service.loop)
            if self._server.grpc is not None:
                self._server.grpc.faults = self._call_faults
            self._open = opening.pop_all()

    def _end(self) -> None:
        opened, self._open = self._open, None
        self._server = self._store = self._faults = None
        if opened is not None:
            opened.close()

    def __enter__(self) -> Self:
        self._begin(self._config)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()


def _text(address: Address | None) -> str:
    assert address is not None
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _installed() -> set[str]:
    from reput.plugin import installed

    found = {each.name for each in installed()}
    return (found & set(_PLUGINS)) | _NEEDED


def _consumer_plugin() -> type[ConsumerPlugin]:
    from reput_consumer import ConsumerPlugin

    return ConsumerPlugin
