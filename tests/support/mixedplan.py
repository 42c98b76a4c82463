"""What the writers of a mixed life do: every kind of message, and what befalls their stores.

A message's body begins with an id that says what is to become of it, so that whoever looks at the
log knows without being told: ``death.thread.number-kind``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

PLUGINS: Final = ("compaction", "consumequeue", "filter", "index", "schedule", "transaction")

WITH_GROUPS: Final = (*PLUGINS, "consumer")

PULLS: Final = "pullers"
POPS: Final = "poppers"
POPS_IN_ORDER: Final = "orderly"
GROUPS: Final = (PULLS, POPS, POPS_IN_ORDER)
GROUPS_BESIDE: Final = ((), (), (PULLS,), (POPS,), (POPS_IN_ORDER,), (PULLS, POPS))
"""Groups of which members consume beside the producers; one of these is chosen."""

PLAIN: Final = "plain"
LEVEL: Final = "level"
TIMED: Final = "timed"
COMMITTED: Final = "commit"
ROLLED_BACK: Final = "rollback"
KEYED: Final = "keyed"
TOPIC_OF: Final = {
    PLAIN: "plain",
    LEVEL: "late",
    TIMED: "late",
    COMMITTED: "paid",
    ROLLED_BACK: "paid",
    KEYED: "latest",
}
QUEUES: Final = 2
KEYS: Final = 7
"""Keys of a queue whose latest message is kept."""

WRITE: Final = "write"
REBUILD: Final = "rebuild"
BACKFILL: Final = "backfill"

BACKFILLED: Final = frozenset({"consumequeue", "index", "integrity", "schedule", "transaction"})
RENEWED: Final = frozenset({"index", "filter", "integrity"})
"""Plugins that are taken away while others work, and added."""

OPENING: Final = "opening"
WRITING: Final = "writing"
CLOSING: Final = "closing"
FULLY: Final = "fully"
"""Phase of a process that is not killed."""

FILE_SIZE: Final = 16_384
KEPT_SIZE: Final = 6 * FILE_SIZE
"""Bytes of the log that retention keeps, where it limits them."""
KEPT_MS: Final = 6_000
"""How long retention keeps messages, where it limits that: longer than a process lives."""
LEVELS: Final = "0s 1s 2s"
SIZES: Final[Mapping[str, Mapping[str, Any]]] = {
    "consumequeue": {"extend_file_size": 1_024},
    "compaction": {"log_file_size": 4_096, "queue_file_size": 46 * 6},
    "schedule": {"roll_window_slots": 20, "timer_log_file_size": 4_096},
    "transaction": {"op_batch_interval_ms": 50, "snapshot_size": 4_096},
}
"""For the mark ``sizes``."""


@attrs.frozen(kw_only=True)
class Death:
    """One process that works on the store, and its end."""

    seed: int
    number: int
    job: str
    plugin: str
    """Which one is backfilled."""
    phase: str
    """In which it is killed: at an operation of its disk, or after some time."""
    operation: int | None
    seconds: float
    threads: int
    calls: int
    """Calls of each producer before the store is closed."""
    jump_ms: int
    """How far the clock has gone since the death before."""
    sections: Mapping[str, Mapping[str, Any]]
    flushes: bool
    """Whether flushes of the disk are real."""
    full: tuple[int, int]
    """The first operation that finds the disk full, and how many do."""
    stops: tuple[float, float] | None
    """When the process is stopped, and for how long; seconds."""
    looks: bool
    """Whether the store is judged after this death already, and not only after a later one."""
    rests: bool
    """Whether the store is brought to rest and compared in all, not only read."""
    goes_on_repaired: bool
    compares: bool
    """Whether the derived files are compared with those of a rebuild."""
    groups: tuple[str, ...] = ()
    """Groups that consume meanwhile."""
    readers: int = 0
    """How many processes read meanwhile, and are killed, too."""
    follows: bool = False
    """Whether a replica follows the directory meanwhile, in a process that is killed, too."""
    serves: bool = False
    """Whether a broker serves the store meanwhile; a replica then follows the broker."""

    @property
    def plugins(self) -> list[str]:
        """The store's plugins, which are the same as long as it lives."""
        return plugins_of(self.sections)

    def __str__(self) -> str:
        when = f"operation {self.operation}" if self.operation else f"{self.seconds:.3f} s"
        what = f"{self.job} of {self.plugin}" if self.job == BACKFILL else self.job
        return f"{what}, killed at {when} into {self.phase}, {self.threads} producers"


@attrs.frozen
class Life:
    """One store from its first byte on; everything follows from the seed and the number."""

    seed: int
    number: int

    def sections(self, chance: random.Random) -> dict[str, dict[str, Any]]:
        """Options that stay the same as long as the store lives, by plugin."""
        added: dict[str, dict[str, Any]] = {}
        if chance.random() < 0.5:
            added["integrity"] = {}
        if chance.random() < 0.5:
            added["retention"] = {
                "max_bytes": chance.choice((0, KEPT_SIZE)),
                "reserved_ms": chance.choice((0, KEPT_MS)),
            }
        return {
            **added,
            "commitlog": {
                "file_size": FILE_SIZE,
                "record_crc": chance.random() < 0.2,
                "flush_timeout_ms": 60_000,
            },
            "consumequeue": {
                "units_per_file": chance.choice((7, 30)),
                "extend": chance.random() < 0.5,
            },
            "index": {"slots_per_file": 50, "items_per_file": chance.choice((20, 60))},
            "filter": {"bit_maps": chance.random() < 0.5},
            "schedule": {
                "delay_levels": LEVELS,
                "precision_ms": chance.choice((10, 100, 1_000)),
            },
            "transaction": {
                "timeout_ms": 200,
                "check_interval_ms": 100,
                "op_messages": chance.choice(("batched", "single")),
            },
            "compaction": {
                "topics": ["latest"],
                "interval_ms": chance.choice((20, 200)),
                "roll_ms": chance.choice((0, 50)),
                "offset_map_size": 1 << 16,
            },
            "consumer": {"save_interval_ms": chance.choice((10, 200, 5_000))},
        }

    @property
    def is_on_disk(self) -> bool:
        """Whether the store is on a real disk, which is full for a while, beside SIGSTOP."""
        return self.number % 10 == 9

    def deaths(self) -> Iterator[Death]:
        """What happens to it."""
        chance = random.Random(f"{self.seed}/{self.number}")
        lasting = self.sections(chance)
        count = chance.randint(8, 28)
        for number in range(count):
            changing = {
                "flush": chance.choice(("async", "async", "sync")),
                "read_horizon": chance.choice(("", "appended", "durable")),
                "flush_interval_ms": chance.choice((1, 5, 500)),
            }
            job = WRITE
            if number and chance.random() < 0.15:
                job = chance.choice((REBUILD, BACKFILL))
            phase = chance.choices((OPENING, WRITING, CLOSING, FULLY), (38, 40, 20, 2))[0]
            by_operation = chance.random() < 0.6
            most = {OPENING: 120, WRITING: 600, CLOSING: 150, FULLY: 1}[phase]
            longest = {OPENING: 0.05, WRITING: 0.3, CLOSING: 0.05, FULLY: 0.0}[phase]
            yield Death(
                seed=chance.getrandbits(48),
                number=number,
                job=job,
                plugin=chance.choice(sorted(lasting.keys() & BACKFILLED)),
                phase=phase,
                operation=int(most ** chance.random() ** 1.5) if by_operation else None,
                seconds=chance.random() ** 4 * longest,
                threads=chance.choice((1, 1, 1, 1, 2, 3)),
                calls=chance.choice((1, 2, 8)) if phase in (CLOSING, FULLY) else 60,
                jump_ms=chance.choice((0, 0, 500, 1_500, 4_000)),
                sections={**lasting, "commitlog": {**lasting["commitlog"], **changing}},
                flushes=self.is_on_disk,
                full=self._full(chance),
                stops=self._stops(chance),
                looks=chance.random() < 0.15,
                rests=number == count - 1,
                goes_on_repaired=chance.random() < 0.04,
                compares=chance.random() < 0.25,
                groups=chance.choice(GROUPS_BESIDE),
                readers=chance.choices((0, 1, 2), (92, 5, 3))[0],
                follows=chance.random() < 0.04,
                serves=job == WRITE and not self.is_on_disk and chance.random() < 0.03,
            )

    def _full(self, chance: random.Random) -> tuple[int, int]:
        if not self.is_on_disk or chance.random() < 0.5:
            return 0, 0
        return chance.randint(1, 200), chance.choice((1, 3, 40))

    def _stops(self, chance: random.Random) -> tuple[float, float] | None:
        if not self.is_on_disk or chance.random() < 0.5:
            return None
        return chance.random() * 0.1, chance.random() * 0.1


def plugins_of(sections: Mapping[str, Any]) -> list[str]:
    """Plugins of a store with that configuration."""
    return sorted({*WITH_GROUPS, *sections} - {"commitlog"})


def id_of(body: bytes) -> str:
    """The id that a body begins with."""
    return body.split(b":", 1)[0].decode()


def kind_of(name: str) -> str:
    """Of which kind the message with that id is."""
    return name.rsplit("-", 1)[1]


def body_for(name: str, chance: random.Random) -> bytes:
    """A body with that id."""
    size = chance.randint(0, 120) if chance.random() < 0.95 else chance.randint(0, 3_000)
    return f"{name}:".encode() + chance.randbytes(size)


def resume_all(store: Any) -> None:
    """Resume the plugins that a process had suspended when it was killed."""
    for state in store.plugins():
        if state.state == "suspended":
            store.resume_plugin(state.name)
