"""`LiteSubscriptions`: which lite topics clients have subscribed to, and which may have messages.

Each subscription is a request that waits at `PopService.waiting`. It notes its light queue as ready
when a message comes, and when a message comes again or no longer holds up others. A pop looks at
those queues only.

Source: RocketMQ 5.5 ``LiteSubscriptionRegistryImpl``, ``LiteEventDispatcher``.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from reput_consumer import PopService

_ALL_MAX: Final = 100_000
"""Subscriptions of all clients (``maxLiteSubscriptionCount``)."""
_CLIENTS_MAX: Final = 10_000
_ID_MAX: Final = 255
_EXPIRY_MS: Final = 180_000
"""How long a client counts that does not repeat what it has subscribed to."""

_STEP: Final = 500
"""Subscriptions that are made or ended without a pause: a few milliseconds."""
_EXPIRY_STEP_MS: Final = 10_000
"""How often that is looked at."""


@attrs.define(eq=False, repr=False, slots=False)
class LiteQuotaError(ReputError):
    """A client wants to subscribe to too many lite topics, or too many clients want to."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define(eq=False, repr=False)
class LiteClient:
    """One client. All but its name is used under the lock of `LiteSubscriptions`."""

    client_id: str
    group: str
    topic: str
    """The parent of its lite topics."""
    tell: Callable[[str], object]
    """Tells the client that it has lost a light queue; on the event loop."""
    last: int
    """When it has last said what it wants, ms."""
    popped_at: int = 0
    """When it has last asked for messages, ms; 0 if it never has."""
    tokens: dict[str, int] = attrs.field(init=False, factory=dict)
    """By light queue: what ends waiting for it."""
    ready: dict[str, None] = attrs.field(init=False, factory=dict)
    """Light queues that may have messages, the one that is ready for the longest first."""
    attempt: str = attrs.field(init=False, default="")
    """The last request that was given messages, as the client names it."""
    given: frozenset[str] = attrs.field(init=False, default=frozenset())
    """Light queues that these messages are of."""


@attrs.define(eq=False, repr=False)
class LiteSubscriptions:
    """The subscriptions of all clients. Thread-safe."""

    popper: PopService
    clock: Callable[[], int]
    _clients: dict[str, LiteClient] = attrs.field(init=False, factory=dict)
    _by_queue: dict[str, set[str]] = attrs.field(init=False, factory=dict)
    """Ids of clients by light queue."""
    _waiting: dict[int, tuple[str, Callable[[], None]]] = attrs.field(init=False, factory=dict)
    """Requests that wait: of which client, and what wakes it."""
    _by_client: dict[str, set[int]] = attrs.field(init=False, factory=dict)
    """Numbers of waiting requests by client."""
    _expired_at: int = attrs.field(init=False, default=0)
    """When `expire` was called last, ms."""
    _count: int = attrs.field(init=False, default=0)
    _promised: int = attrs.field(init=False, default=0)
    """Subscriptions that clients were granted and that are not made yet."""
    _numbers: itertools.count[int] = attrs.field(init=False, factory=itertools.count)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    # ------------------------------------------------------------------ what clients want

    def add(
        self,
        client_id: str,
        group: str,
        topic: str,
        light_queues: Iterable[str],
        tell: Callable[[str], object],
        quota: int,
        *,
        is_complete: bool,
    ) -> Iterator[None]:
        """Subscribe a client to light queues, some hundreds in each step.

        The caller goes through all steps, and may do something else between two of them. It makes
        no other change of the same client meanwhile.

        Args:
            client_id: the client.
            group: its group.
            topic: the parent topic.
            light_queues: what it wants.
            tell: tells the client that it has lost a light queue; on the event loop.
            quota: how many it may have; -1 for any number.
            is_complete: whether it wants no others.

        Raises:
            LiteQuotaError: these are too many, and nothing has changed; by the first step.
        """
        wanted, now = set(light_queues), self.clock()
        if not 0 <= now - self._expired_at < _EXPIRY_STEP_MS:
            self._expired_at = now
            self.expire(now)
        known = self._clients.get(client_id)
        if known is not None and (known.group, known.topic) != (group, topic):
            self.drop(client_id)
        with self._lock:
            client = self._clients.get(client_id)
            before = set() if client is None else set(client.tokens)
            after = wanted if is_complete else before | wanted
            if quota >= 0 and len(after) > quota:
                raise LiteQuotaError(f"{len(after)} lite topics of one client; {quota} at most")
            more = len(after - before)
            total = self._count + self._promised + len(after) - len(before)
            if total > _ALL_MAX and len(after) > len(before):
                raise LiteQuotaError(f"lite subscription quota exceeded {_ALL_MAX}")
            if client is None:
                if len(client_id) > _ID_MAX or len(self._clients) >= _CLIENTS_MAX:
                    raise LiteQuotaError(f"too many clients, or an id over {_ID_MAX} characters")
                client = LiteClient(client_id, group, topic, tell, now)
                self._clients[client_id] = client
            client.tell, client.last = tell, now
            self._promised += more
        try:
            for part in _parts(before - after):
                with self._lock:
                    for each in part:
                        self._remove(client, each)
                yield
            for part in _parts(after - before):
                with self._lock:
                    if self._clients.get(client_id) is not client:
                        return  # it was dropped meanwhile
                    self._begin(client, part)
                    self._promised -= len(part)
                    more -= len(part)
                self.note_ready(client_id, part)
                yield
        finally:
            with self._lock:
                self._promised -= more

    def _begin(self, client: LiteClient, light_queues: Iterable[str]) -> None:
        for each in light_queues:
            self._by_queue.setdefault(each, set()).add(client.client_id)
            wake = partial(self.note_ready, client.client_id, [each])
            client.tokens[each] = self.popper.waiting.begin(client.group, [each], wake)
            self._count += 1

    def remove(self, client_id: str, light_queues: Iterable[str]) -> list[str]:
        """End subscriptions of a client; return the subscriptions that it had."""
        with self._lock:
            client = self._clients.get(client_id)
            if client is None:
                return []
            client.last = self.clock()
            return [each for each in set(light_queues) if self._remove(client, each)]

    def take_from_others(self, client_id: str, group: str, light_queue: str) -> list[LiteClient]:
        """End the subscriptions of all others in a group; return those clients."""
        with self._lock:
            ids = self._by_queue.get(light_queue, set()) - {client_id}
            found = [self._clients[each] for each in ids if self._clients[each].group == group]
            for each in found:
                self._remove(each, light_queue)
        return found

    def end_queues(self, light_queues: Iterable[str]) -> None:
        """End all subscriptions of light queues; the clients get no notice."""
        for each in light_queues:
            with self._lock:
                for client_id in list(self._by_queue.get(each, ())):
                    self._remove(self._clients[client_id], each)

    def drop(self, client_id: str) -> None:
        """Forget a client."""
        with self._lock:
            client = self._clients.pop(client_id, None)
            for each in () if client is None else list(client.tokens):
                self._remove(client, each)

    def expire(self, now: int) -> None:
        """Forget clients that have not said for long what they want."""
        for each in list(self._clients.values()):
            if now - each.last > _EXPIRY_MS:
                self.drop(each.client_id)

    def _remove(self, client: LiteClient | None, light_queue: str) -> bool:
        token = None if client is None else client.tokens.pop(light_queue, None)
        if client is None or token is None:
            return False
        self.popper.waiting.end(token)
        client.ready.pop(light_queue, None)
        self._count -= 1
        ids = self._by_queue[light_queue]
        ids.discard(client.client_id)
        if not ids:
            del self._by_queue[light_queue]
        return True

    # ------------------------------------------------------------------ what is ready

    def note_ready(self, client_id: str, light_queues: Iterable[str]) -> None:
        """Have the next pop of a client look at light queues; on any thread."""
        with self._lock:
            client = self._clients.get(client_id)
            if client is None:
                return
            had = len(client.ready)
            client.ready.update((each, None) for each in light_queues if each in client.tokens)
            numbers = self._by_client.get(client_id, ()) if len(client.ready) > had else ()
            woken = [self._waiting[number][1] for number in numbers]
        for wake in woken:
            wake()

    def take_ready(self, client_id: str, group: str, topic: str, attempt: str = "") -> list[str]:
        """Return the light queues that a pop has to look at, each once.

        Those of the last pop come first if its attempt is repeated: the client got no answer.

        Args:
            client_id: the client.
            group: the group of the pop; of another group nothing is returned.
            topic: the parent topic, likewise.
            attempt: the request, as the client names it.
        """
        with self._lock:
            client = self._clients.get(client_id)
            if client is None or (client.group, client.topic) != (group, topic):
                return []
            client.popped_at = self.clock()
            again = client.given & client.tokens.keys() if attempt == client.attempt else ()
            found = [*again, *(each for each in client.ready if each not in again)]
            client.ready.clear()
            return found

    def note_given(self, client_id: str, attempt: str, light_queues: Iterable[str]) -> None:
        """Note of which light queues a request was given messages."""
        with self._lock:
            client = self._clients.get(client_id)
            if client is not None:
                client.attempt = attempt
                client.given = frozenset(light_queues) if attempt else frozenset()

    def begin(self, client_id: str, wake: Callable[[], None]) -> int:
        """Have ``wake`` called when a client may get messages; return what `end` takes.

        The client may subscribe later.
        """
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = client_id, wake
            self._by_client.setdefault(client_id, set()).add(number)
        return number

    def end(self, number: int) -> None:
        """Wake a request no more."""
        with self._lock:
            client_id, _ = self._waiting.pop(number)
            numbers = self._by_client[client_id]
            numbers.discard(number)
            if not numbers:
                del self._by_client[client_id]

    # ------------------------------------------------------------------ what operators ask

    @property
    def count(self) -> int:
        """Subscriptions of all clients."""
        return self._count

    def find(self, client_id: str) -> tuple[LiteClient, list[str]] | None:
        """Return a client and its light queues."""
        with self._lock:
            client = self._clients.get(client_id)
            return None if client is None else (client, sorted(client.tokens))

    def clients(self) -> list[LiteClient]:
        """Return all clients."""
        with self._lock:
            return list(self._clients.values())

    def readers(self, light_queue: str) -> list[LiteClient]:
        """Return the clients that read a light queue."""
        with self._lock:
            return [self._clients[each] for each in sorted(self._by_queue.get(light_queue, ()))]

    def look_again(self, client_id: str) -> None:
        """Have the next pop of a client look at all its light queues."""
        found = self.find(client_id)
        if found is not None:
            self.note_ready(client_id, found[1])


def _parts(light_queues: set[str]) -> Iterator[tuple[str, ...]]:
    rest = iter(light_queues)
    while part := tuple(itertools.islice(rest, _STEP)):
        yield part
