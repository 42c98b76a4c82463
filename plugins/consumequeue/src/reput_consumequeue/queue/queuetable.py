"""The queues of a store by topic and queue id; unused queues have no object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from reput.files import new_lock
from reput_consumequeue.layout import UNIT_SIZE
from reput_consumequeue.queueextents import Noted

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput_consumequeue.queue.consumequeue import ConsumeQueue
    from reput_consumequeue.queuelist import Listed
    from reput_consumequeue.recordfiles import FileSet

    QueueKey = tuple[str, int]


class QueueTable(Mapping[Any, Any]):
    """Queues by topic and queue id. One thread adds queues; any thread may look them up.

    A queue that nobody has changed since the store was closed is a row of the note until it is
    looked up.

    Attributes:
        made: queues with an object.
        closed: rows of the queues that were as the note says when the store was opened.
        added: number of queues that are not among ``closed``.
    """

    def __init__(
        self, make: Callable[[str, int], ConsumeQueue], closed: Noted | None = None
    ) -> None:
        """Start with the rows of ``closed``; ``make`` returns a new object without an extent."""
        self.made: dict[QueueKey, ConsumeQueue] = {}
        self.closed = closed or Noted()
        self.added = 0
        self._make = make
        self._rows = {key: row for row, key in enumerate(self.closed.keys)}
        self._is_made = np.zeros(len(self._rows), np.bool_)
        self._lock = new_lock()

    def get(self, key: QueueKey, default: Any = None) -> Any:
        """Return a queue, with its object made if it has none."""
        queue = self.made.get(key)
        if queue is not None:
            return queue
        row = self._rows.get(key)
        return default if row is None else self._of(key, row)

    def _of(self, key: QueueKey, row: int) -> ConsumeQueue:
        with self._lock:
            queue = self.made.get(key)
            if queue is None:
                queue = self._from_row(key, row)
                self.made[key] = queue
                self._is_made[row] = True
            return queue

    def _from_row(self, key: QueueKey, row: int) -> ConsumeQueue:
        queue, noted = self._make(*key), self.closed.rows[row]
        queue.files.load([(int(noted["position"]), int(noted["size"]))])
        queue.min_offset, queue.max_offset = int(noted["min_offset"]), int(noted["max_offset"])
        queue.min_physical_offset = int(noted["min_physical_offset"])
        queue.max_physical_offset = int(noted["end_offset"])
        return queue

    def at_rest(self) -> npt.NDArray[np.intp]:
        """Return the rows of ``closed`` whose queues have no object."""
        return np.flatnonzero(~self._is_made)

    def ends_at_rest(self, wanted: npt.NDArray[np.bool_] | bool = True) -> dict[QueueKey, int]:
        """Return the queue offset after the last message of queues without an object."""
        rows = np.flatnonzero(~self._is_made & wanted)
        keys = map(self.closed.keys.__getitem__, rows.tolist())
        return dict(zip(keys, self.closed.rows["max_offset"][rows].tolist(), strict=True))

    def largest(self) -> list[Listed]:
        """Return the closed queue with the largest file, as `listed` yields it."""
        rows = self.closed.rows
        if not len(rows):
            return []
        row = int(rows["size"].argmax())
        return [(*self.closed.keys[row], [(int(rows["position"][row]), int(rows["size"][row]))])]

    def strange(self, files: FileSet) -> npt.NDArray[np.bool_]:
        """Return the rows of ``closed`` whose file has another size or place than the others."""
        rows, size = self.closed.rows, files.units_per_file * UNIT_SIZE
        other = rows["size"] > size if files.grows else rows["size"] != size
        return np.asarray(other | (rows["position"] % size != 0))

    def use(self, wanted: npt.NDArray[np.bool_]) -> None:
        """Make the objects of queues; ``wanted`` has one value for each row of ``closed``."""
        for row in np.flatnonzero(wanted & ~self._is_made).tolist():
            self._of(self.closed.keys[row], row)

    def used(self) -> list[tuple[int, QueueKey, ConsumeQueue]]:
        """Return row, key and object of the closed queues that have one."""
        rows = np.flatnonzero(self._is_made).tolist()
        keys = list(map(self.closed.keys.__getitem__, rows))
        return list(zip(rows, keys, map(self.made.__getitem__, keys), strict=True))

    def others(self) -> list[tuple[QueueKey, ConsumeQueue]]:
        """Return the queues that are not among ``closed``."""
        made = list(self.made.items())
        return [each for each in made if each[0] not in self._rows] if self._rows else made

    def has_files(self, key: QueueKey) -> bool:
        """Return whether a queue has files, without its object."""
        queue = self.made.get(key)
        return key in self._rows if queue is None else bool(queue.files.bases)

    def looked_at(self) -> Iterator[ConsumeQueue]:
        """Yield every queue for a look; an object that is made for this is not kept."""
        rows = self.at_rest().tolist()
        yield from list(self.made.values())
        for row in rows:
            key = self.closed.keys[row]
            yield self.made.get(key) or self._from_row(key, row)

    def __contains__(self, key: object) -> bool:
        return key in self.made or key in self._rows

    def __getitem__(self, key: QueueKey) -> ConsumeQueue:
        queue = self.get(key)
        if queue is None:
            raise KeyError(key)
        return queue  # type: ignore[no-any-return]

    def __setitem__(self, key: QueueKey, queue: ConsumeQueue) -> None:
        is_new = key not in self
        self.made[key] = queue
        self.added += is_new

    def __iter__(self) -> Iterator[QueueKey]:
        yield from self._rows
        yield from [key for key in list(self.made) if key not in self._rows]

    def __len__(self) -> int:
        return len(self._rows) + self.added
