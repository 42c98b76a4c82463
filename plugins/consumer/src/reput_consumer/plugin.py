"""The plugin ``consumer``: its hooks, and how programs get consumers and servers of the store.

Methods about groups and topics are in `reput_consumer.groupoperations`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import threading
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

import reput
from reput.errors import ReputError, ServiceNotAvailableError, StoreClosedError
from reput.plugin import PutInterest
from reput_consumer.backend.offsetcorrection import clamp_offsets
from reput_consumer.config import ConsumerConfig
from reput_consumer.consumerfactory import ConsumerFactory
from reput_consumer.groupoperations import GroupOperations
from reput_consumer.names import checked_group
from reput_consumer.pluginfiles import PluginFiles
from reput_consumer.steadyclock import SteadyClock

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

    from reput.plugin import StoreContext
    from reput.record import DispatchBatch
    from reput_consumer.backend.embeddedbackend import EmbeddedBackend
    from reput_consumer.group.membersettings import MemberSettings
    from reput_consumer.localmembers import LocalMembers
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.metadata.localoffsets import LocalOffsets
    from reput_consumer.pop.popconsumer import PopConsumer
    from reput_consumer.selectors import Selector
    from reput_consumer.storeservices import StoreServices

    Moving = Callable[[str, Mapping[MessageQueue, int]], contextlib.AbstractContextManager[None]]

logger = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"
_BROADCASTER: Final = "DEFAULT"
"""Instance name of broadcasting members: their offsets are found again after a restart."""
_SAVE_AGAIN_MS: Final = 5_000


@attrs.define(eq=False)
class ConsumerPlugin(ConsumerFactory, GroupOperations, reput.Plugin):
    """Consumer groups in the process of the store, in the files of RocketMQ's brokers.

    It derives nothing from the log, so a store may go without it at any time.
    """

    name: ClassVar[str] = "consumer"
    config_type: ClassVar[type] = ConsumerConfig
    runs_after: ClassVar[frozenset[str]] = frozenset({"consumequeue"})
    store_methods: ClassVar[frozenset[str]] = frozenset({"consumer", "pop_consumer"})

    config: ConsumerConfig = attrs.field(factory=ConsumerConfig)
    _watcher: Callable[[DispatchBatch], None] | None = attrs.field(init=False, default=None)
    _mover: Moving | None = attrs.field(init=False, default=None)
    _context: StoreContext | None = attrs.field(init=False, default=None)
    _clock: SteadyClock = attrs.field(init=False, factory=lambda: SteadyClock(lambda: 0))
    _files: PluginFiles | None = attrs.field(init=False, default=None)
    _parts: StoreServices | None = attrs.field(init=False, default=None)
    """None until a consumer needs them, if the store is only read; and after closing."""
    _save_at: int | None = attrs.field(init=False, default=None)
    """When committed offsets are saved, ms; None if there is nothing to save."""
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    _numbers: itertools.count[int] = attrs.field(init=False, factory=lambda: itertools.count(1))

    # ------------------------------------------------------------------ hooks

    @reput.hookimpl
    def reput_open(self, context: StoreContext) -> None:
        """Read the files of groups, topics and offsets."""
        self._clock = SteadyClock(context.clock)
        self._context = context
        self._files = PluginFiles.of(context)
        self._files.load()
        if context.writable:
            self._parts = self._made(context, self._files)

    def _made(self, context: StoreContext, files: PluginFiles) -> StoreServices:
        from reput_consumer.backend.embeddedbackend import EmbeddedBackend
        from reput_consumer.backend.unknowntopics import warn_of_unknown
        from reput_consumer.localmembers import LocalMembers
        from reput_consumer.memberlist.memberlistfile import MemberListFile
        from reput_consumer.pop.popservice import PopService
        from reput_consumer.storeservices import MEMBER_DEFAULTS, StoreServices

        roster_file = MemberListFile(attrs.evolve(context, clock=self._clock))
        port = EmbeddedBackend(
            context,
            self.config.broker_name,
            files.offsets,
            files.groups,
            files.topics,
            files.deleted,
            self._save_soon,
            context.wake,
            roster_file.note_change,
            self._save_members,
            self._clock,
        )
        members = LocalMembers(
            port,
            context.wake,
            self._client_id,
            self._local_offsets,
            port.check_group,
            {"save_interval_ms": self.config.save_interval_ms, **MEMBER_DEFAULTS},
            roster_file.note_change,
            functools.partial(warn_of_unknown, port),
        )
        popper = PopService(port, files.modes, context.wake, roster_file.note_change)
        return StoreServices(port, popper, members, roster_file)

    @reput.hookimpl
    def reput_recover(self, progress: int) -> int:
        """Finish what a crash has interrupted; nothing is derived from the log."""
        files, context = self._files, self._context
        if files is not None and context is not None and context.writable:
            files.finish_replacing(flush=not context.clean)
            self._of_consumers.roster_file.begin()
        return progress

    @reput.hookimpl
    def reput_ready(self, queue_offsets: Mapping[tuple[str, int], int]) -> None:
        """Lower offsets that a power cut has left beyond the log."""
        files, context = self._of_files, self._context
        has_light = context is not None and context.light_queues
        clamp_offsets(files.offsets, queue_offsets, light_queues=has_light)

    @property
    def put_interest(self) -> PutInterest:
        """Nothing: messages are stored as they are."""
        return PutInterest()

    @property
    def queue_counts(self) -> Mapping[str, int]:
        """The queues of the topics in ``config/topics.json``."""
        return {} if self._files is None else self._files.topics.write_queue_counts()

    @reput.hookimpl
    def reput_arrive(self, batch: DispatchBatch) -> None:
        """Wake consumers that wait for a message of ``batch``."""
        parts = self._parts
        if parts is not None:
            parts.port.arrive(batch)
            parts.popper.arrive(batch)
        watcher = self._watcher
        if watcher is not None:
            watcher(batch)

    @reput.hookimpl
    def reput_work(self) -> int | None:
        """Save offsets, and do what the consumers of this process have to do by now."""
        parts, now = self._of_consumers, self._clock()
        parts.port.tell_growth()
        # Members have waited before they commit, so the file does not wait once more.
        saves = parts.members.is_save_due(now)
        due = [parts.members.work(now), parts.popper.work(now)]
        due.append(parts.roster_file.work(now, parts.members_now, parts.popper.out))
        with self._lock:
            saves |= self._save_at is not None and self._save_at <= now
            if saves:
                self._save_at = None
        if saves:
            self._save_now(parts.port)
        with self._lock:
            first = min((at for at in (*due, self._save_at) if at is not None), default=None)
        return None if first is None else self._clock.at_source(first)

    def _save_members(self, group: str) -> None:
        parts = self._parts
        if parts is not None:
            try:
                parts.members.save(group)
            except (ReputError, OSError) as error:
                logger.warning("offsets not saved group=%s: %s", group, error)

    def _save_now(self, port: EmbeddedBackend) -> None:
        try:
            port.save()
        except (ReputError, OSError) as error:
            logger.warning("offsets not saved; the next round tries again: %s", error)
            with self._lock:
                self._save_at = port.clock() + _SAVE_AGAIN_MS

    @reput.hookimpl
    def reput_report(self) -> Mapping[str, object]:
        """Return the numbers of groups and members."""
        offsets, parts, member_count = self._of_files.offsets, self._parts, 0
        if parts is not None:
            registry = parts.port.registry
            member_count = sum(len(registry.members(group)) for group in registry.groups())
        return {
            "group_count": len(offsets.groups()),
            "member_count": member_count,
            "is_saved": offsets.is_saved,
            "are_retries_late": parts is not None and parts.port.sender.are_retries_late,
        }

    @reput.hookimpl
    def reput_close(self) -> None:
        """Close the consumers of this process, and save all offsets."""
        with self._lock:
            parts, self._parts, self._files = self._parts, None, None
        if parts is None:
            return
        parts.popper.close()
        parts.members.close()
        if parts.port.context.writable:
            try:
                parts.port.save()
            except (ReputError, OSError) as error:
                logger.warning("offsets not saved, so messages may come again: %s", error)
            parts.roster_file.remove()

    # ------------------------------------------------------------------ consumers

    @property
    def _opener(self) -> LocalMembers:
        return self._of_process

    def pop_consumer(
        self,
        group: str,
        topics: Mapping[str, str | Selector | None] | str | list[str],
        *,
        invisible: float = 30,
        start: str | int | dt.datetime = "latest",
        idle: float | None = None,
        name: str | None = None,
        mixed: bool = False,
    ) -> PopConsumer:
        """Join a group whose members are handed messages one by one, each until a deadline.

        A message that is not acknowledged until then comes again, to any member, with one failure
        more. Nothing is shared out, so there may be more members than queues.

        Args:
            group: the group; all its members pop.
            topics: what to read: a topic, several, or what to select of each, as for `consumer`.
            invisible: seconds for which a message that was handed out is invisible to others.
            start: where the group begins to read queues of which it has no offset yet, as for
                `consumer`.
            idle: seconds without a message after which iterating ends.
            name: the member's name, unlike those of all other members; one is made when left out.
            mixed: join although members select other tags of a topic. Each then leaves out what it
                does not want, and no other member gets it.

        Raises:
            GroupKindError: the group has members that pull.
            SubscriptionMismatchError: a member selects other tags of a topic.
            ReputError: the store is read-only, or the group may not read.
            ValueError: a name, a selector, or another argument that cannot be.
            TypeError: an argument of a wrong type.
        """
        from reput_consumer.group.membersettings import seconds_of, start_of
        from reput_consumer.pop.popconsumer import PopConsumer, invisible_ms_of
        from reput_consumer.selectors import selectors_of

        consumer = PopConsumer(
            self.popper,
            checked_group(group),
            self._client_id(False) if name is None else name,
            selectors_of(topics),
            invisible_ms_of(invisible),
            start_of(start),
            seconds_of("idle", idle),
            mixed,
        )
        consumer.join()
        self._of_process.check_topics(consumer.selectors)
        return consumer

    def _client_id(self, is_broadcasting: bool) -> str:
        number = next(self._numbers)
        return f"{_HOST}@{_BROADCASTER if is_broadcasting else f'{os.getpid()}#{number}'}"

    def _local_offsets(self, settings: MemberSettings) -> LocalOffsets:
        from reput_consumer.metadata.localoffsets import LocalOffsets

        context, flush = self._of_store.context, self._of_store.flush_log
        names = settings.member, settings.group
        if self.config.local_offsets is not None:
            return LocalOffsets(self.config.local_offsets, *names, flush_messages=flush)
        home = context.directory("reput", "consumer")
        return LocalOffsets(home, *names, context.disk, flush)

    # ------------------------------------------------------------------ servers

    def watch(
        self,
        arrived: Callable[[DispatchBatch], None] | None,
        moving: Moving | None = None,
    ) -> None:
        """Have functions called from now on, for servers of the store; None ends it.

        Args:
            arrived: called with all messages that have come to their queues. It is called on the
                thread that dispatches, and a batch may come again after a failure, or if its queues
                come later.
            moving: called with a group and its new offsets by queue, on any thread. What it returns
                surrounds their commit.
        """
        self._watcher, self._mover = arrived, moving

    def _moving(
        self, group: str, offsets: Mapping[MessageQueue, int]
    ) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._mover is None else self._mover(group, offsets)

    @property
    def port(self) -> EmbeddedBackend:
        """The store as the backend of consumers, for servers of remote consumers."""
        return self._of_store

    # ------------------------------------------------------------------ timed work

    @property
    def _of_files(self) -> PluginFiles:
        if self._files is not None:
            return self._files
        if self._context is not None:
            raise StoreClosedError(self._context.root)
        raise ServiceNotAvailableError("store", None, None, "it is not open")

    @property
    def _of_consumers(self) -> StoreServices:
        parts = self._parts
        if parts is None:
            with self._lock:
                files, context = self._of_files, self._context
                assert context is not None
                parts = self._parts or self._made(context, files)
                self._parts = parts
        return parts

    @property
    def _of_newest(self) -> EmbeddedBackend:
        """The store; if another process may be writing, its files are read again."""
        port = self._of_store
        if not port.context.writable:
            self._of_files.load()
        return port

    def _save_soon(self) -> None:
        assert self._context is not None
        with self._lock:
            if self._save_at is not None:
                return
            self._save_at = self._clock() + self.config.save_interval_ms
        self._context.wake()
