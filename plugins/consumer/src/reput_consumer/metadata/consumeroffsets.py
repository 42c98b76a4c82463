"""``config/consumerOffset.json``: how far each group has read each queue.

    {
        "dataVersion":{
            "counter":7,
            "stateVersion":0,
            "timestamp":1700000000000
        },
        "groupTopicMap":{
            "GroupA":["TopicTest"]
        },
        "offsetTable":{
            "TopicTest@GroupA":{0:12,1:10
            }
        }
    }

Written in the form of RocketMQ 5, of which 4.8 reads the member ``offsetTable``.

A broker with light queues keeps the offsets of all groups in ``lmqConsumerOffset.json``, and those
of groups named ``%LMQ%…`` in a table of its own there. It neither reads nor writes the first file.
So where the second file exists, the newer one of the two counts for a queue that both have, and
both are written: the same broker goes on from there, with light queues or without.

A negative offset counts as none, as in brokers and clients, which write -1 for "not known".

Source: RocketMQ ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``, and for negative offsets
``ConsumerManageProcessor#queryConsumerOffset``.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from reput_consumer.metadata.startjournal import StartJournal
from reput_consumer.names import LIGHT_PREFIX, checked_group
from reput_tools.brokerfiles import (
    BareKey,
    BrokerDocument,
    change_time,
    offset_of,
    offsets_of,
    section_of,
    table_of,
)

logger = logging.getLogger(__name__)

FILE_NAME: Final = "consumerOffset.json"
LIGHT_FILE_NAME: Final = "lmqConsumerOffset.json"
_TABLE: Final = "offsetTable"
_LIGHT_TABLE: Final = "lmqOffsetTable"
_BY_GROUP: Final = "groupTopicMap"
_SEPARATOR: Final = "@"
_OFFSET_MAX: Final = (1 << 63) - 1
_QUEUES: Final = range(1 << 31)

Key = tuple[str, str]
"""Group and topic."""


@attrs.define(eq=False, repr=False)
class ConsumerOffsets:
    """The offsets of all groups in memory, and the file that they are saved to. Thread-safe."""

    document: BrokerDocument
    light: BrokerDocument
    """`LIGHT_FILE_NAME`; written only where it exists."""
    starts: StartJournal
    cover: Callable[[Mapping[str, int]], None] = lambda counts: None
    """Called in front of each save with topics and their number of queues; see `Topics.cover`."""
    _offsets: dict[Key, dict[int, int]] = attrs.field(init=False, factory=dict)
    _changed: dict[Key, int] = attrs.field(init=False, factory=dict)
    """What was committed, or forgotten, and not saved yet, with the largest of its queue ids."""
    _taken: dict[Key, int] = attrs.field(init=False, factory=dict)
    """The same of what a save is writing now."""
    _behind: dict[Key, int] = attrs.field(init=False, factory=dict)
    """The same of what one of the two files does not have; written with the next change."""
    _copies: list[str] = attrs.field(init=False, factory=list)
    """Copies of files that cannot be read, of which `load` has warned."""
    _touched: set[Key] = attrs.field(init=False, factory=set)
    """What was committed or forgotten here since the files were loaded."""
    _ignored: dict[Key, dict[int, int]] = attrs.field(init=False, factory=dict)
    """Negative offsets that `load` has found."""
    is_incomplete: bool = attrs.field(init=False, default=False)
    """Whether offsets may have been lost: a file could not be read, now or before, and nobody has
    removed its copy."""
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    _saving: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    """Held during a save, so that two do not overtake each other."""

    def __attrs_post_init__(self) -> None:
        self.document.check = self.light.check = _tables_of
        # Offsets are saved all the time, and nothing of a group is served without its offset.
        self.document.starts_again = self.light.starts_again = True
        self.document.consequence = self.light.consequence = (
            "a group without an offset begins at the first message that is there"
        )

    def load(self) -> None:
        """Read the files; offsets that were committed and not saved are forgotten."""
        documents = [self.document.read(), self.light.read()]
        tables = [_tables_of(each) for each in documents]
        newer, older = reversed(tables) if self._is_light_newer(*documents) else tables
        found = {**older, **{key: {**older.get(key, {}), **newer[key]} for key in newer}}
        behind = {}
        if documents[1] or self.light.problem is not None:
            behind = {key: -1 for key in found if newer.get(key) != older.get(key)}
        files = self.document, self.light
        copies = [copy for each in files for copy in each.copies]
        if copies and copies != self._copies:
            text = (
                f"offsets of groups were lost: {', '.join(copies)} cannot be read; as long as it "
                f"exists, {self.document.consequence}"
            )
            logger.warning("%s", text)
            self.document.note_problem(text)
        is_lost = any(each.problem is not None for each in files)
        changed: dict[Key, int] = {}
        for group, topic, queue_id, offset in self.starts.load():
            if queue_id not in found.get((group, topic), {}):
                found.setdefault((group, topic), {})[queue_id] = offset
                changed[group, topic] = max(changed.get((group, topic), -1), queue_id)
        ignored = _without({**_negative_in(documents[1]), **_negative_in(documents[0])}, found)
        self._warn_of(ignored)
        with self._lock:
            self._offsets, self._changed, self._behind = found, changed, behind
            self._ignored = ignored
            self._copies = copies
            self.is_incomplete = is_lost or bool(copies)

    def _warn_of(self, ignored: Mapping[Key, Mapping[int, int]]) -> None:
        for (group, topic), queues in ignored.items():
            if self._ignored.get((group, topic)) != queues:  # a reader loads again and again
                logger.warning(
                    "offsets ignored, as they are negative; the group begins there like a new one "
                    "group=%s topic=%s offsets=%s",
                    *(group, topic, " ".join(f"{each}:{queues[each]}" for each in sorted(queues))),
                )

    def ignored_of_group(self, group: str) -> dict[tuple[str, int], int]:
        """Return the group's negative offsets by topic and queue id, which count as none.

        Those are left out that the group has replaced since.
        """
        with self._lock:
            return {
                (topic, queue_id): offset
                for (name, topic), queues in _without(self._ignored, self._offsets).items()
                if name == group
                for queue_id, offset in queues.items()
            }

    def _is_light_newer(self, document: Mapping[str, Any], light: Mapping[str, Any]) -> bool:
        if not (document and light):
            return bool(light)
        times = change_time(document), change_time(light)
        if -1 in times or times[0] == times[1]:  # RocketMQ 4 writes no time, and 5 not each time
            times = self.document.modified_at(), self.light.modified_at()
        return times[1] >= times[0]

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the queue offset of the next message that the group needs; None if not known."""
        with self._lock:
            return self._offsets.get((group, topic), {}).get(queue_id)

    def of_group(self, group: str) -> dict[tuple[str, int], int]:
        """Return the group's offsets by topic and queue id."""
        with self._lock:
            return {
                (topic, queue_id): offset
                for (name, topic), queues in self._offsets.items()
                if name == group
                for queue_id, offset in queues.items()
            }

    def by_group(self) -> dict[str, dict[tuple[str, int], int]]:
        """Return all offsets by group, then topic and queue id."""
        found: dict[str, dict[tuple[str, int], int]] = {}
        with self._lock:
            for (group, topic), queues in self._offsets.items():
                own = found.setdefault(group, {})
                for queue_id, offset in queues.items():
                    own[topic, queue_id] = offset
        return found

    def groups(self) -> list[str]:
        """Return the names of all groups that have offsets, valid or not, sorted."""
        with self._lock:
            return sorted({group for group, _ in self._keys()})

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Note how far a group has read; the last word counts, also if it is a smaller offset.

        Args:
            group: the group.
            offsets: next queue offset by topic and queue id.

        Raises:
            ValueError: an offset or a queue id that no queue can have, or a name that no group has.
        """
        checked_group(group)  # it may come from anywhere, and the file is that of all groups
        for (topic, queue_id), offset in offsets.items():
            if not (0 <= offset <= _OFFSET_MAX and queue_id in _QUEUES):
                raise ValueError(f"offset {offset} of {topic}/{queue_id}: no queue has it")
        with self._lock:
            for (topic, queue_id), offset in offsets.items():
                queues = self._offsets.setdefault((group, topic), {})
                if queues.get(queue_id) != offset:
                    queues[queue_id] = offset
                    highest = self._changed.get((group, topic), -1)
                    self._changed[group, topic] = max(highest, queue_id)

    def begin(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Note where a group begins, and have that on disk when this returns.

        Unlike a `save` it takes no longer for a store with many groups.

        Raises:
            ValueError: as for `commit`.
            OSError: the place cannot be written; it is saved as other offsets are.
        """
        self.commit(group, offsets)  # first: a save that does not know it leaves the line
        self.starts.add(group, offsets)

    def forget(self, group: str, topic: str) -> bool:
        """Drop a group's offsets of a topic; return whether there were any."""
        with self._lock:
            ignored = self._ignored.pop((group, topic), None)
            if self._offsets.pop((group, topic), None) is None and ignored is None:
                return False
            self._changed[group, topic] = -1
            return True

    def forget_group(self, group: str) -> bool:
        """Drop all offsets of a group; return whether there were any."""
        with self._lock:
            topics = self.topics_of(group)
            for topic in topics:
                self.forget(group, topic)
            return bool(topics)

    def forget_topic(self, topic: str) -> bool:
        """Drop the offsets that groups have of a topic; return whether there were any."""
        with self._lock:
            groups = self.groups_of(topic)
            for group in groups:
                self.forget(group, topic)
            return bool(groups)

    def topics_of(self, group: str) -> list[str]:
        """Return the topics of which a group has offsets, sorted."""
        with self._lock:
            return sorted({topic for name, topic in self._keys() if name == group})

    def knows(self, group: str, topic: str) -> bool:
        """Whether a group has offsets of a topic."""
        return (group, topic) in self._offsets

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have offsets of a topic, sorted."""
        with self._lock:
            return sorted({group for group, name in self._keys() if name == topic})

    def _keys(self) -> Iterable[Key]:
        return (*self._offsets, *self._ignored) if self._ignored else self._offsets

    @property
    def has_light(self) -> bool:
        """Whether a broker with light queues keeps its offsets here."""
        return self.light.disk.exists(self.light.path)

    @property
    def is_saved(self) -> bool:
        """Whether the file holds everything that was committed."""
        with self._lock:
            return not (self._changed or self._taken)

    def save(self, flush_messages: Callable[[], object] = lambda: None) -> bool:
        """Write what was committed since the last save; durable when this returns.

        A save that is under way on another thread ends first, so that what it writes is durable,
        too.

        Args:
            flush_messages: makes all messages durable that are there when it is called. It is
                called after the offsets to write are taken, and before they are written: offsets
                committed meanwhile are left to the next save.

        Returns:
            Whether there was anything to write.

        Raises:
            OSError: the file cannot be written; the next save tries it again.
        """
        with self._saving:
            with self._lock:
                taken = self._taken = _joined(self._taken, self._changed)
                if taken:
                    taken = self._taken = _joined(self._behind, taken)
                self._touched |= taken.keys()
                self._changed, begun_size = {}, self.starts.size
                offsets = {key: dict(self._offsets.get(key, {})) for key in taken}
            if not taken:
                return False
            try:
                flush_messages()
                if self._taken is not taken:
                    return True  # a signal handler came in between, and saved all of it
                self.cover(_queue_counts(offsets, taken))
                if self.has_light:
                    self.light.change(lambda found: self._edit(found, self.light, offsets))
                self.document.change(lambda found: self._edit(found, self.document, offsets))
                self._behind = {}
                with self._lock:
                    # Each table was written whole, without what is negative in it.
                    left = self._ignored.keys() - taken.keys()
                    self._ignored = {key: self._ignored[key] for key in left}
                self.starts.forget(begun_size)
            except BaseException:
                with self._lock:
                    self._changed = _joined(self._taken, self._changed)
                raise
            finally:
                self._taken = {}
            return True

    def _edit(
        self,
        document: dict[str, Any],
        of: BrokerDocument,
        offsets: Mapping[Key, Mapping[int, int]],
    ) -> bool:
        if of.is_behind:
            # It is the backup, or empty: all that is known here is newer.
            known = _tables_of(document)
            with self._lock:
                here = self._touched | (self._offsets.keys() - known.keys())
                offsets = {key: dict(self._offsets.get(key, {})) for key in here} | dict(offsets)
        return _merge(document, offsets, is_light=of is self.light)


def _joined(taken: Mapping[Key, int], changed: Mapping[Key, int]) -> dict[Key, int]:
    """Return the keys of both, each with its larger queue id."""
    return {**taken, **{key: max(changed[key], taken.get(key, -1)) for key in changed}}


def _queue_counts(
    changed: Mapping[Key, Mapping[int, int]], moved: Mapping[Key, int]
) -> dict[str, int]:
    """Return the numbers of queues of topics, but of those with gaps, which no broker has."""
    counts: dict[str, int] = {}
    for (group, topic), queues in changed.items():
        count = moved[group, topic] + 1
        is_news = counts.get(topic, 0) < count <= len(queues)
        if is_news and queues.keys() >= {*range(count)} and not topic.startswith(LIGHT_PREFIX):
            counts[topic] = count
    return counts


def _merge(
    document: dict[str, Any], changed: Mapping[Key, Mapping[int, int]], *, is_light: bool = False
) -> bool:
    table, by_group = section_of(document, _TABLE), section_of(document, _BY_GROUP)
    for (group, topic), queues in changed.items():
        name = f"{topic}{_SEPARATOR}{group}"
        if is_light and group.startswith(LIGHT_PREFIX):
            _merge_light(section_of(document, _LIGHT_TABLE), name, queues)
            continue
        topics = by_group.get(group)
        known = topics if isinstance(topics, list) and _are_texts(topics) else []
        if queues:
            table[name] = {_bare(queue_id): queues[queue_id] for queue_id in sorted(queues)}
            if topic not in known:
                by_group[group] = sorted([*known, topic])
        else:
            table.pop(name, None)
            left = [each for each in known if each != topic]
            if left:
                by_group[group] = left
            else:
                by_group.pop(group, None)
    return bool(changed)


def _merge_light(table: dict[str, Any], name: str, queues: Mapping[int, int]) -> None:
    """Set the offset of a light queue, which is the queue 0 of its topic."""
    if 0 in queues:
        table[name] = queues[0]
    else:
        table.pop(name, None)


@functools.lru_cache(maxsize=4096)
def _bare(queue_id: int) -> BareKey:
    return BareKey(queue_id)


def _are_texts(found: list[Any]) -> bool:
    return all(isinstance(each, str) for each in found)


def _tables_of(document: Mapping[str, Any]) -> dict[Key, dict[int, int]]:
    """Return the offsets of a document of either file.

    Raises:
        ValueError: it has something else than offsets there; a broker does not read it either.
    """
    found: dict[Key, dict[int, int]] = {}
    for name, queues in table_of(document, _TABLE).items():
        offsets = offsets_of(queues, name, _QUEUES)
        key = _key_of(name)
        if key is not None and offsets:
            found[key] = offsets
    for name, value in table_of(document, _LIGHT_TABLE).items():
        offset, key = offset_of(value, name), _key_of(name)
        if key is not None and offset >= 0:
            found[key] = {0: offset}
    return found


def _negative_in(document: Mapping[str, Any]) -> dict[Key, dict[int, int]]:
    """Return the negative offsets of a document that `_tables_of` has read."""
    found: dict[Key, dict[int, int]] = {}
    tables = [*table_of(document, _TABLE).items()]
    tables += [(name, {"0": value}) for name, value in table_of(document, _LIGHT_TABLE).items()]
    for name, queues in tables:
        for queue_id, value in queues.items():
            offset = value if type(value) is int else offset_of(value, name)
            key = _key_of(name) if offset < 0 else None
            if key is not None and int(queue_id) in _QUEUES:
                found.setdefault(key, {})[int(queue_id)] = offset
    return found


def _without(
    ignored: Mapping[Key, Mapping[int, int]], known: Mapping[Key, Mapping[int, int]]
) -> dict[Key, dict[int, int]]:
    """Return what is ignored, but of the queues whose offset is known."""
    left = {
        key: {each: queues[each] for each in queues.keys() - known.get(key, {}).keys()}
        for key, queues in ignored.items()
    }
    return {key: queues for key, queues in left.items() if queues}


def _key_of(name: str) -> Key | None:
    """Return group and topic; None for a name of more parts, such as those of popped messages."""
    topic, separator, group = name.partition(_SEPARATOR)
    if not (topic and separator and group) or _SEPARATOR in group:
        return None
    return group, topic
