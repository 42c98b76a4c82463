"""`batch_of`: messages from several places of the log as one batch of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from reput.errors import CorruptFileError
from reput.record.decode import Decoder

if TYPE_CHECKING:
    from reput.record.batch import DispatchBatch
    from reput.record.view import MessageView

__all__ = ["batch_of"]


def batch_of(messages: Sequence[MessageView]) -> DispatchBatch:
    """Return ``messages`` as columns, row by row in their order.

    The batch has memory of its own, and is valid as long as it is kept. Its ``physical_offset`` is
    that of each message; its window holds their records without what stands between them in the
    log.

    Raises:
        CorruptFileError: a message has lengths that contradict each other.
    """
    window = np.frombuffer(b"".join([message.record for message in messages]), np.uint8)
    batch = Decoder(check_offset=False).decode(window, 0).batch
    if len(batch) < len(messages):
        message = messages[len(batch)]
        message.places()  # raises, and says what is wrong
        raise CorruptFileError("commitlog", message.physical_offset, "no whole record")
    offsets = np.array([message.physical_offset for message in messages], np.int64)
    batch.stand_at(offsets)
    return batch
