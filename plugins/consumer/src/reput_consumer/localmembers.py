"""`LocalMembers`: the consumers of one process at one port, and what they need regularly.

The store's plugin has one of these for its store, a client one for its brokers.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import attrs

from reput.errors import ReputError
from reput_consumer.allocation.simple import Average
from reput_consumer.api.consumer import Consumer
from reput_consumer.api.pullconsumer import PullConsumer
from reput_consumer.api.stopoffsets import stop_offsets_of
from reput_consumer.consumption.memberengine import MemberEngine
from reput_consumer.consumption.queuestatus import status_of
from reput_consumer.group.membersettings import MemberSettings, seconds_of, start_of
from reput_consumer.group.offsetstore import GroupStore, LocalStore, OffsetStore
from reput_consumer.selectors import selectors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from reput.record import MessageView
    from reput_consumer.allocation.strategy import Strategy
    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.consumption.directconsume import Handled
    from reput_consumer.consumption.queuestatus import QueueStatus
    from reput_consumer.messagequeue import MessageQueue
    from reput_consumer.metadata.localoffsets import LocalOffsets
    from reput_consumer.selectors import Selector

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class LocalMembers:
    """Opens consumers at a port, drives their timed work, and closes them. Thread-safe."""

    port: ConsumerBackend
    wake: Callable[[], None]
    """Called, from any thread, when `work` is to be called again to learn when it is due."""
    client_id: Callable[[bool], str]
    """Makes the client id of a member without a name; its argument: whether it broadcasts."""
    local_offsets: Callable[[MemberSettings], LocalOffsets]
    """Where a broadcasting member keeps its offsets."""
    check_group: Callable[[str], object] = lambda group: None
    """Raises a `ReputError` if a group may not read; for consumers that join no group."""
    defaults: Mapping[str, Any] = attrs.field(factory=dict)
    """Defaults of options of members, in place of those of `MemberSettings`."""
    queues_changed: Callable[[], None] = lambda: None
    """Called when a member has taken queues or given some up; must not wait."""
    check_topics: Callable[[Iterable[str]], None] = lambda topics: None
    """Called with the topics of a member that has joined; warns about those that do not exist."""
    _engines: set[MemberEngine] = attrs.field(init=False, factory=set)
    _saves_by: int | None = attrs.field(init=False, default=None)
    """The first `MemberEngine.saves_by` of members that were closed since the last save."""
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def open(
        self,
        group: str,
        topics: object,
        *,
        start: object,
        explicit: bool,
        idle: float | None,
        until: object,
        strategy: Strategy | None,
        name: str | None,
        **options: Any,
    ) -> Consumer:
        """Join a group; see `ConsumerFactory.consumer`."""
        seconds_of("idle", idle)
        settings = self._settings(
            group,
            selectors_of(topics),
            name,
            start=start_of(start),
            strategy=Average() if strategy is None else strategy,
            **options,
        )
        engine = self._engine(settings)
        engine.goals = stop_offsets_of(self.port, settings, until)
        self._begin(engine)
        return Consumer(engine, explicit=explicit, idle=idle)

    def open_pull(
        self, group: str, topics: object, *, start: object, name: str | None, **options: Any
    ) -> PullConsumer:
        """Return a consumer that is polled; see `ConsumerFactory.pull_consumer`."""
        selectors = {} if topics is None else selectors_of(topics)
        settings = self._settings(group, selectors, name, start=start_of(start), **options)
        engine = self._engine(settings)
        if topics is None:
            self.check_group(group)
            with self._lock:
                self._engines.add(engine)
        else:
            self._begin(engine)
        return PullConsumer(engine)

    def _settings(
        self, group: str, selectors: Mapping[str, Selector], name: str | None, **options: Any
    ) -> MemberSettings:
        return MemberSettings(
            group=group,
            member=self.client_id(bool(options.get("broadcast"))) if name is None else name,
            selectors=selectors,
            **{**self.defaults, **options},
        )

    def _engine(self, settings: MemberSettings) -> MemberEngine:
        offsets: OffsetStore = GroupStore(self.port, settings.group)
        if settings.broadcast:
            offsets = LocalStore(self.local_offsets(settings))
        return MemberEngine(
            self.port, settings, offsets, self._wake_at, self._engine_closed, self.queues_changed
        )

    def _wake_at(self, at: int) -> None:
        """Have `work` called, which finds out itself when it is needed next."""
        self.wake()

    def _begin(self, engine: MemberEngine) -> None:
        with self._lock:
            self._engines.add(engine)
        try:
            engine.join()
        except BaseException:
            engine.close()
            raise
        self.check_topics(engine.settings.selectors)

    def _engine_closed(self, engine: MemberEngine) -> None:
        with self._lock:
            self._engines.discard(engine)
            self._saves_by = _earlier(self._saves_by, engine.saves_by)

    # ------------------------------------------------------------------ what all of them do

    def of_group(self, group: str) -> list[MemberEngine]:
        """Return the members of one group."""
        with self._lock:
            return [each for each in self._engines if each.settings.group == group]

    def of_name(self, group: str, member: str) -> MemberEngine | None:
        """Return the member of a group that has a client id; None if no member has it."""
        return next((each for each in self.of_group(group) if each.settings.member == member), None)

    def settings_of(self, group: str, member: str) -> MemberSettings | None:
        """Return what a member is set to do; None if there is no such member."""
        found = self.of_name(group, member)
        return None if found is None else found.settings

    def status_of(self, group: str, member: str) -> list[QueueStatus]:
        """Return what a member holds of each of its queues, sorted by queue."""
        found = self.of_name(group, member)
        return [] if found is None else status_of(found)

    def handler_of(
        self, group: str, member: str
    ) -> Callable[[MessageView, MessageQueue], Handled] | None:
        """Return what handles one message at once, and lets it count for nothing.

        None if there is no such member, or it hands messages to a loop and not to a function.
        """
        found = self.of_name(group, member)
        return None if found is None else found.handle_now

    def queues_held(self) -> dict[tuple[str, str], list[MessageQueue]]:
        """Return the queues that each consumer has now, sorted, by group and client id."""
        with self._lock:
            engines = list(self._engines)
        found = {}
        for each in engines:
            with each.lock:
                key = each.settings.group, each.settings.member
                found[key] = sorted(each.assignments)
        return found

    def save(self, group: str) -> None:
        """Save how far the members of a group are, except members that save only on request.

        Raises:
            ReputError: it cannot be saved.
            OSError: likewise.
        """
        for each in self.of_group(group):
            if each.settings.auto_commit:
                each.save()

    def is_save_due(self, now: int) -> bool:
        """Whether a member has to have saved by now how far it is, or was when it was closed."""
        with self._lock:
            if self._saves_by is not None and self._saves_by <= now:
                return True
            engines = list(self._engines)
        return any(each.is_save_due(now) for each in engines)

    def work(self, now: int) -> int | None:
        """Do what is due; return when to be called again, ms, or None.

        When one member has to save how far it is, all do that have something to save: their port
        may write one file for all of them.
        """
        saves = self.is_save_due(now)
        with self._lock:
            engines = list(self._engines)
            if saves:
                self._saves_by = None
        due = None
        for each in engines:
            due = _earlier(due, each.work(now, saves=saves))
        with self._lock:
            return _earlier(due, self._saves_by)

    def close(self) -> None:
        """Close all members; those whose offsets cannot be saved, with a warning."""
        with self._lock:
            engines, self._engines = list(self._engines), set()
        for each in engines:
            each.detach()
        for each in engines:
            try:
                each.close()
            except (ReputError, OSError) as error:
                logger.warning("consumer closed without saving its offsets: %s", error)


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
