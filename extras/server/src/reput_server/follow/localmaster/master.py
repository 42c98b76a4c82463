"""`DirectoryMaster`: a broker's directory, with the methods of a broker.

The log is read as by every tailing reader (`reput.open` with ``mode="r"``), so
a record that the broker is still writing is not taken for a whole one. That of
DLedger is read as the plain log of a replica (`LedgerView`).
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

import reput
from reput.errors import ReputError, StoreNotFoundError
from reput.files import Disk, is_file_name
from reput.log import LedgerFiles, LogReader, ledger_in
from reput_server.follow.brokerclient.brokerfacts import BrokerFacts, LogRange
from reput_server.follow.errors import BrokerError
from reput_server.follow.localmaster.connection import DirectoryConnection
from reput_server.follow.localmaster.ledgerview import LedgerView

if TYPE_CHECKING:
    from reput import Store
    from reput.log import LogView
    from reput_server.follow.config import FollowConfig

_LOG: Final = "commitlog"
_DOCUMENT_SIZE_MAX: Final = 256 << 20


class DirectoryMaster:
    """Reads the directory at ``path``, and never writes there. Thread-safe."""

    def __init__(self, path: str) -> None:
        """Open nothing yet."""
        self.name = os.path.realpath(path)
        """The directory."""
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._log: LogView | LedgerView | None = None
        self._ledger: str | None = None
        """The folder of DLedger from which the log is read; None for a plain log."""

    def facts(self) -> BrokerFacts:
        """Open the directory again, and return what it says of its broker.

        Raises:
            BrokerError: it has no commit log, or it cannot be read.
        """
        self._replace(None)
        self._ledger = self._ledger_now()  # before the opening, so that a check sees a later change
        first = self._first_file()
        try:
            size = os.stat(first).st_size
            store = reput.open(self.name, mode="r", plugins=[])
        except StoreNotFoundError as error:
            raise self._without_log() from error
        except (ReputError, OSError) as error:
            raise BrokerError(self.name, str(error)) from error
        self._replace(store)
        return BrokerFacts(
            address=self.name,
            cluster="",
            broker=self.name,
            broker_id=0,
            role="ASYNC_MASTER",
            file_size=size,
            ha_port=0,
            in_sync_replicas=1,
            is_controlled=False,
            is_dledger=False,
        )

    def log_range(self) -> LogRange:
        """Return the extent of the log that is known to be whole.

        Raises:
            BrokerError: it cannot be read.
        """
        low = int(os.path.basename(self._first_file()))
        try:
            return LogRange(low, max(self._opened().max_physical_offset, low))
        except (ReputError, OSError) as error:
            raise BrokerError(self.name, str(error)) from error

    def document(self, code: int, name: str) -> bytes | None:
        """Return the file ``config/name``; None if the broker has not written it yet.

        Raises:
            BrokerError: it cannot be read.
        """
        path = os.path.join(self.name, "config", name)
        try:
            with open(path, "rb") as file:
                data = file.read(_DOCUMENT_SIZE_MAX + 1)
        except FileNotFoundError:  # also for a moment, while the broker replaces it
            return None
        except OSError as error:
            raise BrokerError(path, error.strerror or str(error)) from error
        if len(data) > _DOCUMENT_SIZE_MAX:
            raise BrokerError(path, f"it has more than {_DOCUMENT_SIZE_MAX} bytes")
        return data

    def connect(self, facts: BrokerFacts, config: FollowConfig) -> DirectoryConnection:
        """Return what reads the log's bytes as they come.

        Raises:
            BrokerError: `facts` was not called before.
        """
        return DirectoryConnection(
            self.name, self._opened(), config.look_interval, self._check_place
        )

    def close(self) -> None:
        """Close the directory's files."""
        self._replace(None)

    def _replace(self, store: Store | None) -> None:
        log = None if store is None else _plain(store.log)
        with self._lock:
            before, self._store, self._log = self._store, store, log
        if before is not None:
            before.close()

    def _opened(self) -> LogView | LedgerView:
        with self._lock:
            if self._log is None:
                raise BrokerError(self.name, "it is not open")
            return self._log

    def _ledger_now(self) -> str | None:
        """Return the folder in which DLedger keeps the log; None if none does."""
        try:
            return ledger_in(self.name, Disk())
        except FileNotFoundError:
            return None  # as a directory without a log
        except OSError as error:
            raise BrokerError(self.name, error.strerror or str(error)) from error

    def _check_place(self) -> None:
        """Check that the log is where it was when it was opened.

        A broker that is started with DLedger closes its plain log, and a reader of that log would
        wait for more for ever.
        """
        now = self._ledger_now()
        if now != self._ledger:
            raise BrokerError(self.name, f"its log goes on in {now or _LOG}; it is opened again")

    def _first_file(self) -> str:
        """Return the path of the log's first file."""
        ledger = self._ledger_now()
        folders = [_LOG] if ledger is None else [_LOG, os.path.join(ledger, "data")]
        for folder in folders:
            directory = os.path.join(self.name, folder)
            try:
                with os.scandir(directory) as found:
                    names = [each.name for each in found if is_file_name(each.name)]
            except FileNotFoundError:
                continue
            except OSError as error:
                raise BrokerError(self.name, error.strerror or str(error)) from error
            if names:
                return os.path.join(directory, min(names))
        raise self._without_log()

    def _without_log(self) -> BrokerError:
        return BrokerError(
            self.name,
            f"its {_LOG} has no file; name the storePathRootDir of a broker that has a message",
        )


def _plain(log: LogView) -> LogView | LedgerView:
    """Return what reads a log as the plain log of a replica."""
    if isinstance(log, LogReader) and isinstance(log.files, LedgerFiles):
        return LedgerView(log, log.files)
    return log
