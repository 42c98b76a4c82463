"""`LiteSource`: pops from the light queues of one client, as one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_consumer import Popped, PopRequest, PopService
    from reput_server.broker.lite.litesubscriptions import LiteSubscriptions

__all__ = ["LiteSource"]


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

        A light queue is looked at again when its last message is acknowledged or comes again.

        Raises:
            ReputError: as for `PopService.pop`; likewise `ValueError` and `OSError`.
        """
        left = self.subscriptions.take_ready(self.client_id)
        found: list[Popped] = []
        nonce, size = self.popper.new_nonce(), 0
        try:
            while left and len(found) < pop.max_count and size < pop.max_bytes:
                taken = self.popper.pop(
                    attrs.evolve(
                        pop,
                        topic=left[0],
                        max_count=pop.max_count - len(found),
                        max_bytes=pop.max_bytes - size,
                        is_ordered=True,
                        nonce=nonce,
                    )
                )
                del left[0]
                size += sum([len(each.view.record) for each in taken])
                found += taken
        except BaseException:
            self.give_back(pop, found)
            raise
        finally:
            if left:
                self.subscriptions.note_ready(self.client_id, left)
        return found

    def give_back(self, pop: PopRequest, found: Sequence[Popped]) -> None:
        """Have messages come again at once."""
        by_queue: dict[str, list[Popped]] = {}
        for each in found:
            by_queue.setdefault(each.topic, []).append(each)
        for topic, messages in by_queue.items():
            self.popper.give_back(pop.group, topic, [each.handle for each in messages])
