"""The plan of a kill loop: lives of stores, and when and how their writers die.

All of it follows from a seed and the number of the life, except what the system's scheduler
decides: which thread was where at that moment.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import random
import struct
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple, Self

import attrs

from reput.plugin import Plugin
from reput.record import Message

ACK: Final = struct.Struct(">HIqq?")
"""Form of what the writer sends: an `Ack`, or a mark, which has `_MARK` as its thread."""
OPENED: Final = 1
CLOSING: Final = 2
CLOSED: Final = 3
_MARK: Final = 0xFFFF

SECONDS: Final = "seconds"
ACKS: Final = "acks"
OPERATION: Final = "operation"
NEVER: Final = "never"
OPENING_PHASE: Final = "opening"
WRITING_PHASE: Final = "writing"
CLOSING_PHASE: Final = "closing"
CLOSED_PHASE: Final = "closed"

_DEATHS = 12  # per life, at most; each adds about 30 KB to the log
_THREADS = (1, 1, 2, 3, 4, 8, 16)
_MOMENTS = (
    (OPENING_PHASE, SECONDS, 10),
    (OPENING_PHASE, OPERATION, 20),
    (WRITING_PHASE, ACKS, 20),
    (WRITING_PHASE, SECONDS, 15),
    (WRITING_PHASE, OPERATION, 10),
    (CLOSING_PHASE, SECONDS, 7),
    (CLOSING_PHASE, OPERATION, 12),
    (CLOSING_PHASE, NEVER, 6),
)


class Ack(NamedTuple):
    """An acknowledgement: ``put`` has returned a receipt for a message."""

    thread: int
    sequence: int
    queue_offset: int
    physical_offset: int
    is_durable: bool
    """Level in the receipt: durable, or appended, which survives a kill of the process."""

    @property
    def mark(self) -> int:
        """The mark: `OPENED`, `CLOSING` or `CLOSED`; 0 for an acknowledgement."""
        return self.sequence if self.thread == _MARK else 0

    @classmethod
    def of_mark(cls, mark: int) -> Ack:
        """Return the `Ack` that sends ``mark``."""
        return cls(_MARK, mark, 0, 0, False)


@attrs.frozen
class Moment:
    """When the writer dies."""

    phase: str
    kind: str
    amount: float
    """Seconds into the phase, or acknowledgements, or operations of the disk; see ``kind``."""

    def __str__(self) -> str:
        return f"{self.amount:g} {self.kind} into {self.phase}" if self.amount else "closed"

    @classmethod
    def random(cls, chance: random.Random) -> Moment:
        """Return a random moment."""
        phase, kind, _ = chance.choices(_MOMENTS, [weight for *_, weight in _MOMENTS])[0]
        most = 60 if phase == CLOSING_PHASE else 250
        match kind:
            case "seconds":
                return cls(phase, kind, chance.random() * 0.012)
            case "acks" | "operation":
                # Equally often between 1 and 4 as between 50 and 200.
                return cls(phase, kind, int(most ** chance.random()))
        return cls(phase, kind, 0)


@attrs.frozen(kw_only=True)
class Death:
    """One opening of the store, until its writer is killed."""

    seed: int
    number: int
    thread_count: int
    call_count: int | None
    """Calls of each producer before the store is closed; None: until the writer is killed."""
    moment: Moment
    commitlog: Mapping[str, Any]
    """Options of the log."""
    sizes: Mapping[str, int]
    """Sizes and intervals of the log that are no options of users, for the writer's process."""
    max_body_size: int
    flushes: bool
    """Whether files are really flushed, which takes time and shows nothing after a kill."""
    goes_on_repaired: bool
    """Whether the next writer starts with what another writer has recovered and closed; if not,
    with the files as this kill has left them."""
    reads_first: bool
    """Whether the store is opened for reading first."""
    added: tuple[Message, ...] = ()
    """Messages that the producers put beside their own."""


@attrs.frozen
class Life:
    """One store, from its first byte on."""

    seed: int
    number: int

    def deaths(self) -> Iterator[Death]:
        """Return the deaths of its writers, in order."""
        chance = random.Random(f"{self.seed}/{self.number}")
        file_size = chance.choice((8_192, 16_384, 65_536))
        lasting = {
            "file_size": file_size,
            "record_crc": chance.random() < 0.2,
            "flush_timeout_ms": 60_000,
            "recovery": chance.choice(("reput", "reput", "reput", "rocketmq")),
        }
        sizes = {
            "made_ahead_from": 0 if chance.random() < 0.8 else 1 << 30,
            "window_size": chance.choice((4_096, 1 << 20)),
        }
        flushes = chance.random() < 0.1
        for number in range(chance.randint(_DEATHS // 2, _DEATHS)):
            moment = Moment.random(chance)
            yield Death(
                seed=chance.getrandbits(64),
                number=number,
                thread_count=chance.choice(_THREADS),
                call_count=chance.randint(0, 6) if moment.phase == CLOSING_PHASE else None,
                moment=moment,
                commitlog={
                    **lasting,
                    "flush": chance.choice(("async", "async", "sync")),
                    "read_horizon": chance.choice(("", "", "appended", "durable")),
                    "flush_interval_ms": chance.choice((1, 5, 500)),
                },
                sizes={
                    **sizes,
                    "plugin_flush_interval_ms": chance.choice((1, 5, 1_000)),
                },
                max_body_size=min(file_size - 1_024, 8_192),
                flushes=flushes,
                goes_on_repaired=chance.random() < 0.25,
                reads_first=number % 2 == 0,
            )


# --------------------------------------------------------------------------- the orders of a writer

START_SIZE: Final = 1 << 17
"""Most bytes of an encoded `Start`."""


@attrs.frozen
class PluginSource:
    """How another process finds a plugin: by its name, or as a class in a module."""

    name: str
    module: str = ""
    file: str = ""
    qualified_name: str = ""
    section: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(cls, name: str, plugin_type: type[Plugin], section: Mapping[str, Any]) -> Self:
        """Return the source of a class that need not be installed.

        Raises:
            ValueError: the class is defined in a function, so other processes cannot import it.
        """
        qualified_name = plugin_type.__qualname__
        if "<locals>" in qualified_name:
            raise ValueError(f"{qualified_name} must stand in a module, not inside of a function")
        file = inspect.getfile(plugin_type)
        return cls(name, plugin_type.__module__, file, qualified_name, section)

    def plugin(self) -> str | Plugin:
        """Return the plugin for `reput.open`."""
        if not self.module:
            return self.name
        found: Any = self._load()
        for part in self.qualified_name.split("."):
            found = getattr(found, part)
        plugin: Plugin = found.from_section(self.name, self.section)
        return plugin

    def _load(self) -> ModuleType:
        try:
            module = importlib.import_module(self.module)
            if module.__file__ and os.path.samefile(module.__file__, self.file):
                return module
        except ImportError:
            pass  # mostly a module of tests, which is imported by its file
        spec = importlib.util.spec_from_file_location(self.module, self.file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{self.file} is not a Python module")
        module = sys.modules[self.module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@attrs.frozen
class Start:
    """The instructions for one writer."""

    root: str
    death: Death
    plugins: tuple[PluginSource, ...]
    config: Mapping[str, Mapping[str, Any]]
