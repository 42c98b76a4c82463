"""`Admission`: whether a port takes one more connection."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs

from reput_server.wire import filedescriptors

if TYPE_CHECKING:
    from reput_server.config import Limits

logger = logging.getLogger(__name__)


@attrs.define(eq=False, repr=False)
class Admission:
    """Decides for the connections of one port. Used on the event loop."""

    limits: Limits
    _is_refusing: bool = attrs.field(init=False, default=False)
    """Whether the last connection was refused."""

    def allows(self, count: int, descriptor: int) -> bool:
        """Whether a new connection may stay.

        Args:
            count: connections of the port, with this one.
            descriptor: its file descriptor.
        """
        limits = self.limits
        if count > limits.connections:
            reason = f"{limits.connections} is the limit"
        elif not filedescriptors.are_left(descriptor, limits.spare_descriptors):
            reason = "the store needs the descriptors that are left; ulimit -n allows more"
        else:
            self._is_refusing = False
            return True
        if not self._is_refusing:  # once, and not for each of a thousand
            self._is_refusing = True
            logger.warning("refusing connections open=%d reason=%s", count - 1, reason)
        return False
