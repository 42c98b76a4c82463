"""`DeletedFilter`: drops copies of failed messages whose topic or group was deleted.

Such copies are in retry topics, which other topics and groups use, too, and some come only later:
after a delay, or from a member that still had the message. A copy says which message it was made of
(``ORIGIN_MESSAGE_ID``), so the place of the original in the log decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from reput_consumer.names import RETRY_PREFIX, retry_topic

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from reput.plugin import MessageFilter
    from reput.record import DispatchBatch, MessageView

RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
ORIGIN_GROUP = "ORIGIN_GROUP"
"""The group of a message in the retry topic of a group that pops."""
_OFFSET_DIGITS = 16  # at the end of a message id, in hexadecimal


@attrs.frozen(eq=False)
class DeletedFilter:
    """A `reput.plugin.MessageFilter` of a retry topic."""

    positions: Mapping[str, int]
    """By deleted topic, and by the retry topic of a deleted group: the end of the log then."""
    chosen: MessageFilter | None
    """What else selects messages; None for all."""

    def matches(self, message: MessageView) -> bool:
        """See `reput.plugin.MessageFilter.matches`."""
        if self._is_deleted(message):
            return False
        return self.chosen is None or self.chosen.matches(message)

    def matches_batch(self, batch: DispatchBatch) -> npt.NDArray[np.bool_]:
        """See `reput.plugin.MessageFilter.matches_batch`."""
        import numpy as np

        return np.array([self.matches(batch.message(row)) for row in range(len(batch))], bool)

    def may_match(
        self,
        tags_codes: npt.NDArray[np.int64],
        bit_maps: Sequence[bytes | None],
        store_timestamps: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """See `reput.plugin.MessageFilter.may_match`."""
        import numpy as np

        if self.chosen is None:
            return np.ones(len(tags_codes), bool)
        return self.chosen.may_match(tags_codes, bit_maps, store_timestamps)

    def _is_deleted(self, message: MessageView) -> bool:
        properties = message.properties
        group = properties.get(ORIGIN_GROUP) or message.topic.removeprefix(RETRY_PREFIX)
        names = properties.get(RETRY_TOPIC, ""), retry_topic(group)
        end = max(self.positions.get(name, 0) for name in names)
        return end > 0 and _origin(message) < end


def _origin(message: MessageView) -> int:
    """Return the physical offset of the message that a copy was made of, or that of the copy."""
    try:
        return int(message.properties[ORIGIN_MESSAGE_ID][-_OFFSET_DIGITS:], 16)
    except (KeyError, ValueError):
        return message.physical_offset
