"""`LiveOptions`: a broker's options that may change while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from reput_server.config import Limits, ServerConfig


@attrs.define(eq=False, repr=False)
class LiveOptions:
    """The options of a broker as they are now. Read on any thread, changed on the event loop."""

    config: ServerConfig
    permissions: int = 6
    """What may be done with all topics: 4 to read, 2 to write (`brokerPermission`)."""

    @property
    def limits(self) -> Limits:
        """What peers may take."""
        return self.config.limits

    def change(self, config: ServerConfig, permissions: int) -> None:
        """Have other options from now on."""
        self.config, self.permissions = config, permissions
