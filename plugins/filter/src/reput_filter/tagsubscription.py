"""`TagSubscription`: the tags that a consumer wants, ``A || B`` or ``*``.

The units of a queue hold a hash of a message's tags, and different tags may have the same hash; so
messages that pass by their units are checked again by the message itself.

Source: RocketMQ ``FilterAPI#buildSubscriptionData``, ``SubscriptionData``. Different on purpose: a
broker leaves the second check to its clients; here it is done by the read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from reput.record import java_string_hash
from reput_filter.columns.textcolumns import Texts
from reput_filter.errors import ExpressionError
from reput_filter.expression import properties_of
from reput_filter.filterkinds import TAG

if TYPE_CHECKING:
    import numpy.typing as npt

    from reput.record import DispatchBatch, MessageView

_ALL: Final = "*"
_SEPARATOR: Final = "||"
_TAGS: Final = "TAGS"
_LOW_BITS: Final = np.int64(0xFFFFFFFF)


def tags(*wanted: str) -> TagSubscription:
    """Return a subscription to these tags; without any, to all messages."""
    return TagSubscription.of(wanted) if wanted else TagSubscription.parse(_ALL)


@attrs.frozen
class TagSubscription:
    """The tags that a consumer wants; immutable, thread-safe, picklable."""

    text: str
    """The subscription as it was given."""
    tags: frozenset[str]
    """The wanted tags; empty if all messages are wanted, or none: see `everything`."""
    everything: bool
    codes: frozenset[int] = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: frozenset(map(java_string_hash, self.tags)), takes_self=True
        ),
    )
    """Hashes of the tags, signed 32-bit."""

    kind = TAG

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str | None) -> TagSubscription:
        """Parse ``A || B``; None, ``""`` and ``*`` mean everything, and blank text means nothing.

        Raises:
            ExpressionError: there are separators without a tag between them.
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
        """Return a subscription to a list of tags, which may hold any characters."""
        found = frozenset(wanted)
        return cls(f" {_SEPARATOR} ".join(sorted(found)), found, False)

    def matches(self, message: MessageView | Mapping[str, str]) -> bool:
        """Return whether a message has one of the tags."""
        return self.everything or properties_of(message).get(_TAGS) in self.tags

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages of a batch have one of the tags."""
        if self.everything:
            return np.ones(len(batch), np.bool_)
        return Texts(batch.text(_TAGS)).is_one_of(self.tags)

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Return ``(n,)``: which messages may have one of the tags, by the hashes in the units.

        Args:
            tags_codes: ``(n,)`` hashes, of which the low 32 bits count.
            bit_maps: not used.
            store_timestamps: not used.
        """
        if self.everything:
            return np.ones(len(tags_codes), np.bool_)
        wanted = np.fromiter(self.codes, np.int32, len(self.codes))
        return np.isin((tags_codes & _LOW_BITS).astype(np.uint32).view(np.int32), wanted)


_BLANKS: Final = "".join(map(chr, range(33)))  # what Java's trim takes off
