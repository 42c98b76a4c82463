"""`DirectoryConnection`: the bytes of a log that another program writes, as transfers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

from reput.errors import ReputError
from reput_client.remoting import Transfer, last_report
from reput_server.follow.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reput.log import LogView
    from reput_server.follow.localmaster.ledgerview import LedgerView

_PIECE_SIZE: Final = 4 << 20
_COMPARED_SIZE: Final = 4 << 10
_HEARTBEAT_SECONDS: Final = 1.0


class DirectoryConnection:
    """Reads a log from the offset on that the first report names, as an HA connection does.

    Used by one thread; only `abort` may be called by others.
    """

    def __init__(
        self,
        name: str,
        log: LogView | LedgerView,
        look_interval: float,
        check_place: Callable[[], None],
    ) -> None:
        """Read nothing yet.

        Args:
            name: the directory, for errors.
            log: the log, open for reading.
            look_interval: seconds between two looks for new bytes.
            check_place: raises a `BrokerError` if the broker writes its log elsewhere by now.
        """
        self.name = name
        self._log = log
        self._check_place = check_place
        self._look_interval = look_interval
        self._offset: int | None = None
        """Physical offset of the next byte; None before the first report."""
        self._last = b""
        """The bytes before it that were read last."""
        self._aborted = threading.Event()
        self._why_aborted = "it is read no more"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: its master closes the files."""

    def send(self, data: bytes) -> None:
        """Take the first report; a directory has no use for others."""
        if self._offset is None:
            self._offset = last_report(data)[0]

    def read(self, seconds: float) -> list[Transfer]:
        """Return the next bytes of the log, or a heartbeat when none came in ``seconds``.

        Raises:
            BrokerError: the bytes cannot be read, they are not what they were before, or the
                broker writes its log elsewhere.
        """
        assert self._offset is not None
        end = time.monotonic() + min(seconds, _HEARTBEAT_SECONDS)
        while not self._aborted.is_set():
            data = self._next(self._offset)
            if data:
                found = Transfer(self._offset, data)
                self._offset = found.end_offset
                self._last = (self._last + data[-_COMPARED_SIZE:])[-_COMPARED_SIZE:]
                return [found]
            left = end - time.monotonic()
            if left <= 0:
                self._compare(self._offset)
                self._check_place()
                return [Transfer(self._offset, b"")]
            self._aborted.wait(min(self._look_interval, left))
        raise BrokerError(self.name, self._why_aborted)

    def abort(self, reason: str = "") -> None:
        """End the connection; a `read` that waits on another thread raises ``reason``."""
        self._why_aborted = reason or self._why_aborted
        self._aborted.set()

    def _next(self, offset: int) -> bytes:
        try:
            left = self._log.max_physical_offset - offset
            data = self._log.read(offset, min(left, _PIECE_SIZE)) if left > 0 else b""
        except (ReputError, OSError) as error:
            raise BrokerError(self.name, str(error)) from error
        if left > 0 and not data:
            raise BrokerError(self.name, f"its log has no byte at offset {offset} any more")
        if data:
            self._compare(offset)
        return data

    def _compare(self, offset: int) -> None:
        """Check that the bytes before ``offset`` did not change since they were read.

        After an error the log is opened again, and the store's last bytes are compared with it.
        """
        start = offset - len(self._last)
        now = b""
        try:
            while len(now) < len(self._last):  # a read ends with its file
                more = self._log.read(start + len(now), len(self._last) - len(now))
                if not more:
                    break
                now += more
        except (ReputError, OSError) as error:
            raise BrokerError(self.name, str(error)) from error
        if now != self._last:
            raise BrokerError(
                self.name, f"the bytes of its log before offset {offset} are not what they were"
            )
