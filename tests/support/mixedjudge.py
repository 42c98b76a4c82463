"""Looks at a store of a mixed life after a death, and compares with what its writers were told.

What is in the log is remembered from death to death, so that also what retention has removed since
is known: nothing may be lost, doubled or early, whichever process did it.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import attrs
import mixedplan as plan
from mixedgroups import Progress

from reput.log import GONE
from reput.record import MessageView
from reput.status import ReadStatus
from reput_testing.crashes.expectedstate import is_filler

VISIBLE = frozenset(plan.TOPIC_OF.values())
LEVEL_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
DELAYS_MS = {1: 0, 2: 1_000, 3: 2_000}
MAX_READ = 1 << 20
LATEST_MS = 1_000
"""The largest precision of the timer: by so much a message may come late."""


class Violation(AssertionError):
    """Something that a store promises does not hold."""


@attrs.define
class Told:
    """What a writer said about one message."""

    kind: str
    level: int = 0
    due: int = 0
    place: tuple[int, int] | None = None
    """Physical offset and queue offset, once that was acknowledged."""
    half: int | None = None
    """Physical offset of the half message, once it was acknowledged."""
    is_ended: bool = False
    """Whether its commit or rollback was acknowledged."""
    cancelling: bool = False


@attrs.define
class Tail:
    """A journal that is read on."""

    path: Path
    position: int = 0

    def lines(self) -> list[dict[str, Any]]:
        """What is new."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.position)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self.position += whole
        return [json.loads(line) for line in data[:whole].splitlines()]


@attrs.define(eq=False)
class Judge:
    """What is known of one store."""

    told: dict[str, Told] = attrs.field(factory=dict)
    records: dict[int, int] = attrs.field(factory=dict)
    """CRC of each record that was ever seen, by physical offset."""
    bodies: dict[int, int] = attrs.field(factory=dict)
    """CRC of each body; a copy in a compacted queue states another physical offset."""
    where: dict[str, int] = attrs.field(factory=dict)
    """Physical offset of each message that consumers can see, or could before it was removed."""
    parked: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    """Physical offset and store time of each message when it was put to wait."""
    newest: dict[str, int] = attrs.field(factory=dict)
    """Physical offset at which it waits now."""
    queues: dict[tuple[str, int], list[int]] = attrs.field(factory=dict)
    """Physical offsets by queue offset."""
    latest: dict[tuple[str, int, str], int] = attrs.field(factory=dict)
    """Queue offset of the latest message of a key."""
    cut: set[tuple[int, int]] = attrs.field(factory=set)
    """What was cut off as an interrupted put; other records may stand there since."""
    progress: Progress = attrs.field(factory=Progress)
    """How far groups have consumed."""
    floor: int = 0
    """Where the log begins at least, as a writer said: what is below was removed."""
    low: int = 0
    end: int = 0
    stored_ms: int = 0
    """The latest store time of a message."""
    ahead_ms: int = 0
    was_full: bool = False
    """Whether the disk has been full."""
    is_blind: bool = False
    """Whether more was removed than was ever looked at, so that nothing can be said any more."""

    def copy(self) -> Judge:
        """The same knowledge, to go on with differently."""
        return attrs.evolve(
            self,
            told={name: attrs.evolve(each) for name, each in self.told.items()},
            records=dict(self.records),
            bodies=dict(self.bodies),
            where=dict(self.where),
            parked=dict(self.parked),
            newest=dict(self.newest),
            queues={key: list(places) for key, places in self.queues.items()},
            latest=dict(self.latest),
            cut=set(self.cut),
            progress=self.progress.copy(),
        )

    # ------------------------------------------------------------------ what writers say

    def hear(self, lines: list[dict[str, Any]]) -> dict[str, str]:
        """Take in the journal of one process; what it says of its end."""
        end = {"phase": "", "activity": ""}
        for line in lines:
            match line["event"]:
                case "begin" if line["kind"] == "cancel":
                    self.told[line["names"][0]].cancelling = True
                case "begin":
                    for name in line["names"]:
                        self.told[name] = Told(
                            line["kind"], line.get("level", 0), line.get("due", 0)
                        )
                case "done":
                    for name, place in zip(line["names"], line["places"], strict=True):
                        if not self.told[name].cancelling:
                            self.told[name].place = tuple(place)
                case "half":
                    for name, place in zip(line["names"], line["places"], strict=True):
                        self.told[name].half = place
                case "ended":
                    for name in line["names"]:
                        self.told[name].is_ended = True
                case "unsure":
                    for name in line["names"]:
                        self.told[name].cancelling = True
                case "phase":
                    end["phase"] = line["phase"]
                    self.ahead_ms = max(self.ahead_ms, line["ahead_ms"])
                case "jump":
                    self.ahead_ms = max(self.ahead_ms, line["ahead_ms"])
                case "cleaned":
                    self.floor = max(self.floor, line["min"])
                case "dies":
                    end["activity"] = line["activity"]
                case "got" | "ending" | "saved":
                    wrong = self.progress.hear(line)
                    if wrong:
                        raise Violation(wrong)
                case "error":
                    raise Violation(f"the process failed:\n{line['text']}")
        return end

    # ------------------------------------------------------------------ what the log says

    def take(self, store: Any) -> None:
        """Read the log, compare with what is known, and remember it."""
        low, high = store.log.min_physical_offset, store.log.max_physical_offset
        if low < max(self.floor, self.low):
            raise Violation(f"the log begins at {low}; it had begun at {self.low}, {self.floor}")
        self.is_blind = self.is_blind or low > self.end
        found: dict[int, MessageView] = {}
        for batch in store.scan(check_crc=True):
            for row, offset in enumerate(batch.physical_offset.tolist()):
                found[offset] = MessageView(batch.record(row), offset)
        for offset, crc in self.records.items():
            if offset < low:
                continue
            view = found.get(offset)
            if view is None or zlib.crc32(view.record) != crc:
                now = "gone" if view is None else f"another: {view!r}"
                raise Violation(f"the record at {offset} that was there before is {now}")
        for loss in store.losses():
            # A put that was interrupted is cut off; what was put before is not.
            # Without room for a note, a removal makes room first, and a kill may come in between.
            is_removal = self.was_full and loss.reason == GONE and loss.end_offset <= low
            if (
                not is_removal
                and loss.start_offset < self.end
                and (loss.start_offset, loss.end_offset) not in self.cut
            ):
                raise Violation(f"a loss is noted, and none came about: {loss}")
            self.cut.add((loss.start_offset, loss.end_offset))
        self.low = low
        if self.is_blind:
            return
        for offset, view in found.items():
            if offset not in self.records:
                if offset < self.end:
                    raise Violation(f"{view!r} at {offset} is new, below the end {self.end}")
                self._take_record(view)
        self.end = max(self.end, high)
        self._check_acks(found)
        self._check_holds()

    def _take_record(self, view: MessageView) -> None:
        offset = view.physical_offset
        self.records[offset] = zlib.crc32(view.record)
        self.bodies[offset] = zlib.crc32(view.body)
        self.stored_ms = max(self.stored_ms, view.store_timestamp)
        if is_filler(view):
            return
        queue = self.queues.setdefault((view.topic, view.queue_id), [])
        if view.queue_offset != len(queue):
            raise Violation(
                f"{view!r} at {offset} has queue offset {view.queue_offset}; the next of "
                f"{view.topic}, {view.queue_id} is {len(queue)}"
            )
        queue.append(offset)
        if view.topic in VISIBLE:
            self._take_visible(view)
        elif view.topic in (LEVEL_TOPIC, TIMER_TOPIC, HALF_TOPIC):
            self._take_parked(view)
        elif view.topic == GIVEN_UP_TOPIC:
            raise Violation(f"given up: {view!r}")

    def _take_visible(self, view: MessageView) -> None:
        name = plan.id_of(view.body)
        told = self.told.get(name)
        if told is None or plan.TOPIC_OF[told.kind] != view.topic:
            raise Violation(f"nobody put {view!r} {name}")
        if name in self.where:
            raise Violation(
                f"{name} comes twice, at {self.where[name]} and {view.physical_offset}; {told}, "
                f"parked {self.parked.get(name)}"
            )
        self.where[name] = view.physical_offset
        if told.kind == plan.ROLLED_BACK:
            raise Violation(f"{name} was rolled back, and is at {view.physical_offset}")
        if told.kind == plan.KEYED:
            key = view.properties["KEYS"]
            self.latest[view.topic, view.queue_id, key] = view.queue_offset
        due = told.due
        if told.kind == plan.LEVEL:
            if name not in self.parked:
                raise Violation(f"{name} was never parked, and is at {view.physical_offset}")
            due = self.parked[name][1] + DELAYS_MS[told.level]
        if view.store_timestamp < due:
            raise Violation(
                f"{name} is early by {due - view.store_timestamp} ms, at {view.physical_offset}"
            )

    def _take_parked(self, view: MessageView) -> None:
        name = plan.id_of(view.body) if b":" in view.body else ""
        told = self.told.get(name)
        if told is None:
            if name and "TIMER_DEL_UNIQKEY" not in view.properties:
                raise Violation(f"nobody put {view!r} {name}")
            return
        if view.topic == LEVEL_TOPIC and name in self.parked:
            raise Violation(f"{name} is parked twice, at {self.parked[name]} and {view!r}")
        self.newest[name] = view.physical_offset
        self.parked.setdefault(name, (view.physical_offset, view.store_timestamp))

    def _check_acks(self, found: dict[int, MessageView]) -> None:
        for name, told in self.told.items():
            offset = told.half if told.place is None else told.place[0]
            if offset is None or offset < self.low:
                continue
            view = found.get(offset)
            if view is None or plan.id_of(view.body) != name:
                raise Violation(f"{name} was acknowledged at {offset}; {view!r} is there; {told}")
            if told.place is not None and view.queue_offset != told.place[1]:
                raise Violation(f"{name} was acknowledged as {told}, and is {view!r}")

    def _check_holds(self) -> None:
        for name in self.waiting():
            if self.newest[name] < self.low:
                raise Violation(f"{name} waits, and the log begins at {self.low}: removed")

    def waiting(self) -> list[str]:
        """Messages that are to come, as the log says."""
        return [
            name
            for name in self.parked
            if name not in self.where
            and self.told[name].kind != plan.ROLLED_BACK
            and not self.told[name].cancelling
        ]

    # ------------------------------------------------------------------ what the store answers

    def check_states(self, store: Any) -> None:
        """Fail where a plugin does not run."""
        for state in store.plugins():
            if state.last_error is not None or state.state != "running":
                raise Violation(f"plugin {state.name} is {state.state}: {state.last_error}")

    def check_sums(self, store: Any, *, is_whole: bool) -> None:
        """Compare records with the sums that the plugin ``integrity`` has made of them.

        Args:
            store: open for reading.
            is_whole: whether each record must have its sum: not right after a kill.
        """
        if "integrity" not in store.plugin_objects:
            return
        for found in store.plugin("integrity").check():
            if is_whole or found.is_damage:
                raise Violation(f"integrity: {found}")

    def check_scheduled(self, store: Any, now: int) -> None:
        """Compare what is said to wait; what is due already may be on its way."""
        waiting = [name for name in self.waiting() if self._due(name) > now + LATEST_MS]
        count = store.plugin("schedule").scheduled().message_count
        parked = sum(name not in self.where for name in self.parked)
        if not len(waiting) <= count <= parked:
            raise Violation(
                f"{count} messages are scheduled, {parked} were parked, {len(waiting)} wait: "
                f"{waiting}"
            )

    def _due(self, name: str) -> int:
        told = self.told[name]
        if told.kind == plan.LEVEL:
            return self.parked[name][1] + DELAYS_MS[told.level]
        return told.due

    def check_anything_scheduled(self, store: Any) -> None:
        """Fail where nothing is said to wait, and timed messages do.

        For readers: what waits at a level they know from its queue, which may end early. What was
        due when the last message was stored may be on its way, as in `check_scheduled`.
        """
        waiting = [
            name
            for name in self.waiting()
            if self.told[name].kind == plan.TIMED and self.told[name].due > self.stored_ms
        ]
        if waiting and not store.plugin("schedule").scheduled().message_count:
            raise Violation(f"a reader says that nothing is scheduled; {waiting} wait")

    def check_queues(self, store: Any) -> None:
        """Read all queues, and find the latest of each key of the compacted ones."""
        for (topic, queue_id), places in self.queues.items():
            if topic == "latest":
                continue
            first = next((n for n, place in enumerate(places) if place >= self.low), len(places))
            if first < len(places):
                self._check_queue(store, topic, queue_id, first, places)
        kept: dict[tuple[str, int, str], int] = {}
        for topic, queue_id in list(self.queues):
            if topic == "latest":
                self._check_compacted(store, topic, queue_id, kept)
        for key, queue_offset in self.latest.items():
            if kept.get(key) != queue_offset:
                raise Violation(f"key {key}: latest is {queue_offset}, {kept.get(key)} is kept")

    def _check_queue(
        self, store: Any, topic: str, queue_id: int, first: int, places: list[int]
    ) -> None:
        at = first
        while at < len(places):
            result = store.read(topic, queue_id, at, max_count=500, max_bytes=MAX_READ)
            found = [
                (place, view.physical_offset)
                for place, view in zip(result.queue_offsets, result.messages, strict=True)
            ]
            expected = list(enumerate(places))[at : at + len(found)]
            if result.status is not ReadStatus.FOUND or not found or found != expected:
                raise Violation(
                    f"queue {topic}, {queue_id} at {at} of {len(places)}: {result.status!r}, next "
                    f"{result.next_queue_offset}, holes {result.holes}, found {found[:3]}, "
                    f"expected {list(enumerate(places))[at : at + 3]}"
                )
            at += len(found)
        again = store.read(topic, queue_id, at)
        if again.messages or again.next_queue_offset != at:
            raise Violation(f"queue {topic}, {queue_id} ends at {at}; there is {again}")

    def _check_compacted(
        self, store: Any, topic: str, queue_id: int, kept: dict[tuple[str, int, str], int]
    ) -> None:
        at = 0
        while True:
            result = store.read(topic, queue_id, at, max_count=500, max_bytes=MAX_READ)
            if result.holes:
                raise Violation(f"compacted queue {queue_id}: holes {result.holes}")
            for view in result.messages:
                if not self._is_copy(view.queue_offset, zlib.crc32(view.body), topic, queue_id):
                    raise Violation(f"compacted queue {queue_id}: nobody put {view!r}")
                key = topic, queue_id, view.properties["KEYS"]
                if kept.get(key, -1) >= view.queue_offset:
                    raise Violation(f"compacted queue {queue_id}: {view!r} is not in order")
                kept[key] = view.queue_offset
            if result.next_queue_offset <= at:
                return
            at = result.next_queue_offset

    def _is_copy(self, place: int, crc: int, topic: str, queue_id: int) -> bool:
        places = self.queues[topic, queue_id]
        return place < len(places) and self.bodies.get(places[place], -1) == crc

    def check_keys(self, store: Any, names: list[str]) -> None:
        """Ask for some messages by their keys."""
        for name in names:
            offset = self.where[name]
            kind = plan.kind_of(name)
            if offset < self.low or kind == plan.KEYED:
                continue
            found = list(store.query(plan.TOPIC_OF[kind], f"key-{name}"))
            if [view.physical_offset for view in found] != [offset]:
                raise Violation(f"by its key {name} at {offset} is {found}")

    def check_rest(self, store: Any) -> None:
        """Fail where something still waits whose time has come."""
        waiting = [name for name in self.waiting() if self.newest[name] >= self.low]
        if waiting:
            name = waiting[0]
            raise Violation(
                f"{len(waiting)} never come, the first is {name}: {self.told[name]}, parked at "
                f"{self.parked[name]}, {self.newest[name]}"
            )
        dangling = store.plugin("transaction").dangling()
        if dangling:
            raise Violation(f"{len(dangling)} transactions dangle, the first is {dangling[0]}")

    def check_groups(self, store: Any) -> None:
        """Let each group consume what is left."""
        wanted = {
            name
            for name, offset in self.where.items()
            if offset >= self.low and self.told[name].kind == plan.PLAIN
        }
        for wrong in self.progress.drain(store, wanted):
            raise Violation(wrong)

    # ------------------------------------------------------------------ what readers say

    def check_reader(self, lines: list[dict[str, Any]]) -> int:
        """Compare what a reader saw; how many messages that were."""
        count = 0
        for line in lines:
            if line["event"] in ("violation", "error"):
                raise Violation(f"a reader failed: {line['text']}")
            if line["event"] != "read" or self.is_blind:
                continue
            topic, queue_id = line["queue"]
            places = self.queues.get((topic, queue_id), [])
            count += len(line["seen"])
            for place, offset, crc in line["seen"]:
                if topic == "latest":
                    if not self._is_copy(place, crc, topic, queue_id):
                        raise Violation(f"a reader saw what was not put: {place} in {line}")
                    continue
                if self.records.get(offset) != crc or place >= len(places):
                    raise Violation(f"a reader saw what is not there: {offset} in {line}")
                if places[place] != offset:
                    raise Violation(f"a reader saw {offset}, {places[place]} is there: {line}")
            if topic == "latest":
                continue
            seen = {place for place, *_ in line["seen"]}
            for place in range(line["at"], line["next"]):
                if place in seen:
                    continue
                if place >= len(places):
                    raise Violation(f"a reader is sent past the end {len(places)}: {line}")
                if places[place] >= self.low:
                    raise Violation(f"a reader is sent past {places[place]}: {line}")
            for place, offset, reason in line["holes"]:
                if place < len(places) and places[place] >= self.low:
                    raise Violation(f"a reader is told that {offset} is lost, {reason}: {line}")
        return count
