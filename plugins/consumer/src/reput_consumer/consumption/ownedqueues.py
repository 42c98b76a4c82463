"""`OwnedQueues`: the queues that one member has, as others of its group come and go.

Source: RocketMQ ``RebalanceImpl``.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from reput.errors import ReputError
from reput_consumer.consumption.consumeresults import ConsumeResults
from reput_consumer.consumption.member import REBALANCE
from reput_consumer.group.assignment import Assignment, shown
from reput_consumer.group.rebalance import subscription_of, wanted_queues
from reput_consumer.group.startoffset import start_offset
from reput_consumer.selectors import Selector

if TYPE_CHECKING:
    from reput_consumer.backend.consumerbackend import ConsumerBackend
    from reput_consumer.group.membersettings import MemberSettings
    from reput_consumer.group.offsetstore import OffsetStore
    from reput_consumer.messagequeue import MessageQueue

logger = logging.getLogger(__name__)

_LOCK_AGAIN_MS: Final = 500
_START_AGAIN_MS: Final = 3_000
_EVERYTHING: Final = Selector()
"""Of queues that are assigned and not subscribed to."""


class OwnedQueues(ConsumeResults):
    """The queues of one member. Thread-safe."""

    def __init__(
        self,
        port: ConsumerBackend,
        settings: MemberSettings,
        offsets: OffsetStore,
        wake_at: Callable[[int], None],
        queues_changed: Callable[[], None],
    ) -> None:
        """Make a member without queues; see `Member`.

        Args:
            port: as for `Member`.
            settings: likewise.
            offsets: likewise.
            wake_at: likewise.
            queues_changed: called when queues were taken or given up; must not wait.
        """
        super().__init__(port, settings, offsets, wake_at)
        self._queues_changed = queues_changed
        self._selectors: Mapping[str, Selector] = subscription_of(settings)
        self._rebalancing = threading.RLock()
        """Held while queues are taken and given up. Never while joining or leaving, when the port
        may call other members."""
        self._is_member = False
        self._topics_seen: set[str] = set()
        self._share: dict[str, Sequence[MessageQueue] | None] | None = None
        """What `wanted_queues` returned last, if the member has just these queues since then."""
        self._starts_unsaved: set[MessageQueue] = set()
        """Queues where the group begins at a place that could not be saved."""

    def join(self) -> None:
        """Become a member of the group, and take the queues that fall to this member.

        Raises:
            ReputError: the group does not take it.
        """
        settings = self.settings
        self.port.join(
            settings.group,
            settings.member,
            self._selectors,
            self.rebalance,
            broadcast=settings.broadcast,
            mixed=settings.mixed,
        )
        self._is_member = True
        self.rebalance()

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Have exactly these queues, whatever other members do; those it had are given up."""
        wanted = list(dict.fromkeys(queues))
        with self._rebalancing:
            self._share = None
            self._apply(wanted, [each for each in self.assignments if each not in wanted])

    def detach(self) -> None:
        """Take and give up no more queues: the port is going to close."""
        with self._rebalancing:
            self._is_member = False

    def rebalance(self) -> None:
        """Take and give up queues, by the group's members and the topics' queues.

        In a group of many members, most changes leave the share of most of them as it was.
        """
        with self._rebalancing:
            if self.is_closed or not self._is_member:
                return
            found, unknown = wanted_queues(self.port, self.settings, self._selectors)
            if found == self._share and not unknown:
                return
            self._share = None  # until it is the member's
            wanted = [queue for queues in found.values() for queue in queues or ()]
            kept = {topic for topic, queues in found.items() if queues is None}
            chosen = set(wanted)
            with self.mutex:
                lost = [
                    queue
                    for queue in self.assignments
                    if queue not in chosen and queue.topic not in kept
                ]
            self._apply(wanted, lost)
            with self.lock:
                missing = {queue.topic for queue in wanted if queue not in self.assignments}
                self.is_share_known = not (unknown or missing)
                if self.goals is not None:  # somebody waits for the end
                    if unknown:
                        self.timers.arm(REBALANCE, self.port.clock() + _START_AGAIN_MS)
                    self.wake_all()
                if self.is_share_known and self.assignments.keys().isdisjoint(lost):
                    self._share = found
            self._topics_seen |= found.keys() - kept - missing

    def _apply(self, wanted: Iterable[MessageQueue], lost: Collection[MessageQueue]) -> None:
        if lost:
            self._give_up(lost)
        with self.mutex:
            new = [queue for queue in wanted if queue not in self.assignments]
            for queue in wanted:
                if queue in self.assignments:
                    self.assignments[queue].is_leaving = False
        if new:
            self._take_over(new)

    def _give_up(self, queues: Collection[MessageQueue]) -> None:
        """Save the offsets of queues and give them to others, but for queues that are held."""
        with self.lock:
            found = [self.assignments[queue] for queue in queues]
            self.recall(found)
            lost = {each.queue: each for each in found if not self.line.is_held(each)}
            for each in lost.values():
                each.is_lost = each.processing.is_dropped = True
                del self.assignments[each.queue]
            changed = {
                each.queue: each.offset
                for each in lost.values()
                if each.is_changed and self.settings.auto_commit
            }
            for each in found:
                each.is_leaving = each.queue not in lost  # settled, it is given up
            if any(each.is_ready for each in lost.values()):
                # A member that fetches nothing would keep them, and more with each that joins.
                self._ready = deque(each for each in self._ready if not each.is_lost)
            self.forget_stale()
            self.wake_all()
        if not lost:
            return
        self._queues_changed()
        for queue in lost:
            self.port.drop(self.settings.member, queue)
        if changed:
            try:
                self._offsets.save(changed, durable=False)
            except (ReputError, OSError) as error:
                logger.warning(
                    "offsets not saved of queues that were given up, so messages may come again "
                    "group=%s: %s",
                    *(self.settings.group, error),
                )
        if self.settings.ordered and not self.settings.broadcast:
            self.port.unlock(self.settings.group, self.settings.member, lost)
        self._log("gave up", lost)

    def _take_over(self, queues: list[MessageQueue]) -> None:
        now = self.port.clock()
        if self.settings.ordered and not self.settings.broadcast:
            locked = self.locked(queues)
            if len(locked) < len(queues):
                with self.lock:
                    self.timers.arm(REBALANCE, now + _LOCK_AGAIN_MS)
            queues = [queue for queue in queues if queue in locked]
        try:
            grown = self._grown_topics({queue.topic for queue in queues})
        except (ReputError, OSError) as error:
            self._try_again(error)
            return
        taken = {}
        for queue in queues:
            try:
                stored = self._offsets.read(queue)
                offset = start_offset(
                    self.port, queue, stored, self.settings.start, has_grown=queue.topic in grown
                )
            except (ReputError, OSError) as error:
                self._try_again(error)
                continue
            selector = self._selectors.get(queue.topic, _EVERYTHING)
            is_new = stored is None or queue in self._starts_unsaved
            taken[queue] = Assignment(
                queue, selector, offset, offset, is_changed=is_new, locked_at=now
            )
        if not self._keep_starts(taken.values()):
            return
        with self.lock:
            self.assignments.update(taken)
            for each in taken.values():
                self._make_ready(each)
            if any(each.is_changed for each in taken.values()):
                self._save_later()
            self.wake()
        self._queues_changed()
        self._log("took", taken)

    def _log(self, what: str, queues: Mapping[MessageQueue, Assignment]) -> None:
        if logger.isEnabledFor(logging.INFO):  # the text takes longer than all the rest
            logger.info("%s queues group=%s queues=%s", what, self.settings.group, shown(queues))

    def _keep_starts(self, taken: Collection[Assignment]) -> bool:
        """Save where the group begins, durably, before a message is handed out; return success.

        The next life of a group that was killed before would begin at an end that has moved, and
        not get again what this one had not finished.
        """
        starts = {each.queue: each.offset for each in taken if each.is_changed}
        if not starts or not (self._is_member or self.settings.auto_commit):
            return True  # assigned by hand, saved by hand: no group to begin for
        try:
            self._offsets.save(starts, durable=True)
        except (ReputError, OSError) as error:
            self._starts_unsaved.update(starts)
            self._try_again(error)
            return False
        self._starts_unsaved.difference_update(starts)
        for each in taken:
            each.is_changed = False
        return True

    def _try_again(self, error: Exception) -> None:
        """Take queues over later, of which nothing can be said now."""
        logger.warning("queues not read yet group=%s: %s", self.settings.group, error)
        with self.lock:
            self.timers.arm(REBALANCE, self.port.clock() + _START_AGAIN_MS)

    def locked(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock queues, or keep them locked; return the queues known to be the member's."""
        try:
            return self.port.lock(self.settings.group, self.settings.member, queues)
        except (ReputError, OSError) as error:
            logger.warning("queues not locked group=%s: %s", self.settings.group, error)
            return set()

    def _grown_topics(self, topics: Iterable[str]) -> set[str]:
        """Return the topics that this member, or its group, has begun to read before."""
        return {
            topic
            for topic in topics
            if topic in self._topics_seen
            or any(self._offsets.read(queue) is not None for queue in self.port.queues(topic))
        }

    def _leave(self) -> None:
        with self.lock:
            for each in self.assignments.values():
                each.is_lost = each.processing.is_dropped = True
            queues = list(self.assignments)
            self.assignments.clear()
            self.forget_stale()
        for queue in queues:
            self.port.drop(self.settings.member, queue)
        if self._is_member:
            self.port.leave(self.settings.group, self.settings.member)
