"""Consumer groups of a mixed life: members that pull and pop, and what is known of their progress.

Members write each message to their journal before and after they are handed it, and before they
acknowledge it. `Progress` compares: what was committed does not come again, and at rest each group
gets what it has not acknowledged, unless retention has removed it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs
import mixedplan as plan

from reput_consumer import ConsumerPlugin
from reput_consumer.metadata.subscriptiongroups import GroupSettings

_MANY_RETRIES: Final = 10_000

Note = Callable[..., object]
Queue = tuple[str, int]


# --------------------------------------------------------------------------- members


@attrs.define(eq=False)
class Member:
    """A member of a group in a process that is killed."""

    store: Any
    note: Note
    chance: random.Random
    group: str

    @property
    def plugin(self) -> ConsumerPlugin:
        """The plugin, which a member of the same process may have closed."""
        found: ConsumerPlugin = self.store.plugin(ConsumerPlugin)
        return found

    def run(self, calls: int, guard: Callable[[], Any]) -> None:
        """Consume, ``calls`` times; ``guard`` returns what goes on behind errors of the disk."""
        with guard():
            settings = self.plugin.subscription_groups
            if self.group not in settings.names():
                orderly = self.group == plan.POPS_IN_ORDER
                settings.put(
                    GroupSettings(
                        group=self.group,
                        consume_message_orderly=orderly,
                        retry_max_times=_MANY_RETRIES,
                    )
                )
        with guard():
            if self.group == plan.PULLS:
                self._pull(calls, guard)
            else:
                self._pop(calls, guard)

    def _pull(self, calls: int, guard: Callable[[], Any]) -> None:
        options = {"start": "earliest", "idle": 0, "explicit": True}
        with self.store.consumer(plan.PULLS, plan.TOPIC_OF[plan.PLAIN], **options) as consumer:
            for _ in range(calls):
                with guard():
                    message = consumer.next(self.chance.choice((0, 0.002)))
                    if message is not None:
                        self._note("got", message)
                        self._note("ending", message)
                        message.ack()
                    if self.chance.random() < 0.1:
                        self._save()

    def _pop(self, calls: int, guard: Callable[[], Any]) -> None:
        topic = plan.TOPIC_OF[plan.PLAIN]
        invisible = self.chance.choice((0.2, 2, 60))
        with self.store.pop_consumer(
            self.group, topic, start="earliest", invisible=invisible
        ) as consumer:
            for _ in range(calls):
                with guard():
                    for message in consumer.receive(self.chance.choice((1, 8)), 0):
                        self._note("got", message)
                        self._end(message)
                    if self.chance.random() < 0.1:
                        self._save()

    def _end(self, message: Any) -> None:
        draw = self.chance.random()
        if draw < 0.1:
            message.retry()
        elif draw < 0.8:
            self._note("ending", message)
            message.ack()

    def _save(self) -> None:
        """Save all offsets; what they were before is in the file from then on."""
        floors = self.plugin.offsets().get(self.group, {})
        self.plugin.port.save()
        self.note(
            "saved", group=self.group, floors=[[*queue, floor] for queue, floor in floors.items()]
        )

    def _note(self, event: str, message: Any) -> None:
        view = message.view
        place = view.topic, view.queue_id, message.queue_offset
        self.note(event, group=self.group, name=plan.id_of(message.body), place=place)


# --------------------------------------------------------------------------- what is known


@attrs.define(eq=False)
class Progress:
    """What members of the groups said, over all deaths of a store."""

    ending: dict[str, set[str]] = attrs.field(
        factory=lambda: {group: set() for group in plan.GROUPS}
    )
    """Messages that were acknowledged, or perhaps; by group."""
    floors: dict[str, dict[Queue, int]] = attrs.field(
        factory=lambda: {group: {} for group in plan.GROUPS}
    )
    """Queue offsets that were saved, by group."""

    def copy(self) -> Progress:
        """The same knowledge."""
        return Progress(
            {group: set(names) for group, names in self.ending.items()},
            {group: dict(floors) for group, floors in self.floors.items()},
        )

    def hear(self, line: Mapping[str, Any]) -> str | None:
        """Take in a line of a journal; what is wrong with it."""
        group = line["group"]
        match line["event"]:
            case "ending":
                self.ending[group].add(line["name"])
            case "saved":
                for topic, queue_id, floor in line["floors"]:
                    known = self.floors[group].get((topic, queue_id), 0)
                    if floor < known:
                        return f"{group} had {known} in {topic}/{queue_id} and goes back: {line}"
                    self.floors[group][topic, queue_id] = floor
            case "got":
                topic, queue_id, queue_offset = line["place"]
                floor = self.floors[group].get((topic, queue_id), 0)
                if queue_offset < floor:
                    return f"{group} gets what it has committed, below {floor}: {line}"
        return None

    def drain(self, store: Any, wanted: set[str]) -> Iterator[str]:
        """Consume everything as each group; yield what is wrong.

        Args:
            store: open for writing without threads; all deadlines of its messages are past.
            wanted: names of the messages that are in the log.
        """
        for group in plan.GROUPS:
            got = set(_all_of(store, group))
            store.wait_dispatched()
            got |= set(_dead(store, group))
            lost = sorted(wanted - self.ending[group] - got)
            if lost:
                yield f"{group} does not get {len(lost)} messages, first {lost[0]}; it got {got}"
            self.ending[group] |= got
            lag = store.plugin(ConsumerPlugin).progress(group).lag
            if lag:
                yield f"{group} has got everything, and a lag of {lag}"


def _all_of(store: Any, group: str) -> Iterator[str]:
    topic = plan.TOPIC_OF[plan.PLAIN]
    if group == plan.PULLS:
        with store.consumer(group, topic, start="earliest", idle=0) as consumer:
            for message in consumer:
                yield plan.id_of(message.body)
        return
    with store.pop_consumer(group, topic, start="earliest", invisible=600) as consumer:
        while found := consumer.receive(32, 0):
            for message in found:
                yield plan.id_of(message.body)
                message.ack()
            store.work()
            store.wait_dispatched()


def _dead(store: Any, group: str) -> Iterator[str]:
    topic = f"%DLQ%{group}"
    if any(info.topic == topic for info in store.queues()):
        for view in store.read(topic, 0, 0, max_count=10_000, max_bytes=1 << 24).messages:
            yield plan.id_of(view.body)
