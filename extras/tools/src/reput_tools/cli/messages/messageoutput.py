"""Prints messages one by one, and what the log has lost between them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from reput_tools.cli.kit.failures import warn
from reput_tools.cli.kit.output import json_line
from reput_tools.cli.messages.queuereader import Placed

if TYPE_CHECKING:
    from reput_tools.cli.messages.messagerender import Render
    from reput_tools.cli.messages.queuereader import Lost


class MessageOutput:
    """Writes messages to stdout; losses to stderr, or as JSON between the messages."""

    def __init__(self, render: Render, *, as_json: bool, flush: bool) -> None:
        self._render = render
        self._as_json = as_json
        self._flush = flush
        self.lost_count = 0
        """Number of messages that the log has lost, so far."""

    def write(self, found: Iterable[Placed | Lost]) -> None:
        """Write all of them."""
        stream = sys.stdout.buffer
        for each in found:
            if isinstance(each, Placed):
                stream.writelines(self._render(each))
            else:
                self._tell(each)
            if self._flush:
                stream.flush()
        stream.flush()

    def _tell(self, lost: Lost) -> None:
        self.lost_count += 1
        stream = sys.stdout.buffer
        if self._as_json:
            stream.write(json_line(lost.document()))
        else:
            stream.flush()  # the messages before this line are shown first
            warn(str(lost))
