"""`TagSubscription`: the tags that a consumer wants, ``A || B`` or ``*``.

A queue's units hold a hash of a message's tags, and different tags may have the same hash; so what
the units let pass is looked at again in the message itself.

Source: RocketMQ ``FilterAPI#buildSubscriptionData``, ``SubscriptionData``. Different on purpose: a
broker leaves the second look to its clients; here nobody comes behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import java_string_hash
from reput_filter.columns._texts import Texts
from reput_filter.errors import ExpressionError
from reput_filter.expression import TAG, properties_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

__all__ = ["TagSubscription", "tags"]

_ALL: Final = "*"
_SEPARATOR: Final = "||"
_TAGS: Final = "TAGS"
_LOW_BITS: Final = np.int64(0xFFFFFFFF)


def tags(*wanted: str) -> TagSubscription:
    """Subscribe to these tags; without any, to all messages."""
    return TagSubscription.of(wanted) if wanted else TagSubscription.parse(_ALL)


@attrs.frozen
class TagSubscription:
    """Tags that are wanted; immutable, thread-safe, picklable."""

    text: str
    """As it was given."""
    tags: frozenset[str]
    """Empty where all messages are wanted, or none: see `everything`."""
    everything: bool
    codes: frozenset[int] = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: frozenset(map(java_string_hash, self.tags)), takes_self=True
        ),
    )
    """Hashes of the tags, 32 bits, signed."""

    kind = TAG

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str | None) -> TagSubscription:
        """Read ``A || B``; None, ``""`` and ``*`` mean everything, and blank text means nothing.

        Raises:
            ExpressionError: separators, and nothing between them.
        """
        if not text or text == _ALL:
            return cls(_ALL, frozenset(), True)
        if not text.replace(_SEPARATOR, ""):
            # Java's split drops empty parts at the end; without any part left it is an error.
            raise ExpressionError(text, 0, "no tag stands between the separators")
        found = frozenset(part.strip(_BLANKS) for part in text.split(_SEPARATOR)) - {""}
        return cls(text, found, False)

    @classmethod
    def of(cls, wanted: Iterable[str]) -> TagSubscription:
        """Subscribe to a list of tags, whatever characters they are made of."""
        found = frozenset(wanted)
        return cls(f" {_SEPARATOR} ".join(sorted(found)), found, False)

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Whether a message has one of the tags."""
        return self.everything or properties_of(message).get(_TAGS) in self.tags

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages of a batch have one of the tags."""
        if self.everything:
            return np.ones(len(batch), np.bool_)
        return Texts(batch.text(_TAGS)).is_one_of(self.tags)

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """``(n,)``: which messages may have one of the tags, by the hashes in a queue's units.

        Args:
            tags_codes: ``(n,)`` hashes, of which the low 32 bits count.
            bit_maps: not looked at.
            store_timestamps: not looked at.
        """
        if self.everything:
            return np.ones(len(tags_codes), np.bool_)
        wanted = np.fromiter(self.codes, np.int32, len(self.codes))
        return np.isin((tags_codes & _LOW_BITS).astype(np.uint32).view(np.int32), wanted)


_BLANKS: Final = "".join(map(chr, range(33)))  # what Java's trim takes off
