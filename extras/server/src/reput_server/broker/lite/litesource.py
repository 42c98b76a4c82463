"""`LiteSource`: pops from the light queues of one client, as one request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from reput.errors import ReputError

if TYPE_CHECKING:
    from reput_consumer import Popped, PopRequest, PopService
    from reput_server.broker.lite.litesubscriptions import LiteSubscriptions

logger = logging.getLogger(__name__)


@attrs.frozen(eq=False)
class LiteSource:
    """A `reput_server.broker.pop.longpolling.PopSource`."""

    popper: PopService
    subscriptions: LiteSubscriptions
    client_id: str

    def begin(self, pop: PopRequest, wake: Callable[[], None]) -> int:
        """Have ``wake`` called when the client may get messages."""
        return self.subscriptions.begin(self.client_id, wake)

    def end(self, token: int) -> None:
        """Wake the request no more."""
        self.subscriptions.end(token)

    def pop(self, pop: PopRequest) -> list[Popped]:
        """Hand messages out, lite topic by lite topic, all with one nonce.

        A light queue is looked at again when its last message is acknowledged or comes again. One
        that cannot be read is looked at again by the next pop, after the others.

        Raises:
            ReputError: as for `PopService.pop`, if nothing else was found; likewise `ValueError`
                and `OSError`.
        """
        subscriptions = self.subscriptions
        left = subscriptions.take_ready(self.client_id, pop.group, pop.topic, pop.attempt)
        found: list[Popped] = []
        failed: list[str] = []
        problem: ReputError | OSError | None = None
        nonce, size = self.popper.new_nonce(), 0
        try:
            while left and len(found) < pop.max_count and size < pop.max_bytes:
                asked = attrs.evolve(
                    pop,
                    topic=left[0],
                    max_count=pop.max_count - len(found),
                    max_bytes=pop.max_bytes - size,
                    is_ordered=True,
                    nonce=nonce,
                )
                try:
                    taken = self.popper.pop(asked)
                except (ReputError, OSError) as error:
                    problem, taken = problem or error, []
                    failed.append(left[0])
                del left[0]
                size += sum([len(each.view.record) for each in taken])
                found += taken
        except BaseException:
            self.give_back(pop, found)
            raise
        finally:
            if left or failed:
                subscriptions.note_ready(self.client_id, [*left, *failed])
        if problem is not None and not found:
            raise problem
        if problem is not None:
            logger.warning(
                "light queue not read group=%s queue=%s: %s", pop.group, *failed[:1], problem
            )
        subscriptions.note_given(self.client_id, pop.attempt, {each.topic for each in found})
        return found

    def give_back(self, pop: PopRequest, found: Sequence[Popped]) -> None:
        """Have messages come again at once."""
        by_queue: dict[str, list[Popped]] = {}
        for each in found:
            by_queue.setdefault(each.topic, []).append(each)
        for topic, messages in by_queue.items():
            self.popper.give_back(pop.group, topic, [each.handle for each in messages])
