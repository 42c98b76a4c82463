"""Suspends or resumes a plugin of a store, whether another process writes the store or not.

The process that writes the store is asked through a file, which it removes
(`reput_tools.offline.Traces.records`), and its answer is the plugin's record. If no process
answers, the record is changed here, under the lock: it takes effect at the next opening, and
nothing has to be opened for that.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import attrs

from reput.errors import StoreLockedError
from reput.storefiles import SUSPEND, Phase, StoredPluginState
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.kit.failures import Failure
from reput_tools.cli.kit.storeopening import follows_links, look_at
from reput_tools.cli.kit.storeplugins import check_store, check_used
from reput_tools.offline import Traces, lock_store

# The other process answers by files alone: no connection could wake this one, and the other may
# have been started by another program, or be gone. Half of what people notice as a pause.
_POLL_S = 0.05


class Answer(NamedTuple):
    """The result of a request."""

    root: str
    plugin: str
    record: StoredPluginState
    dispatched_to: int
    is_written: bool
    """Whether another process has the store open for writing, and carried out the request."""
    writer_pid: int | None

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "path": self.root,
            "plugin": self.plugin,
            "state": self.record.state,
            "asked": self.record.asked,
            "dispatched_to": self.dispatched_to,
            "last_error": self.record.last_error,
            "is_written": self.is_written,
            "writer_pid": self.writer_pid,
        }


def change_plugin(path: str, plugin: str, request: str, timeout: float) -> Answer:
    """Suspend or resume a plugin.

    Args:
        path: the store's directory.
        plugin: the plugin's name.
        request: `reput.storefiles.SUSPEND` or `RESUME`.
        timeout: seconds that another process may take.

    Raises:
        Failure: no such plugin, no process took the request, or the plugin could not be resumed.
    """
    root = check_store(path)
    check_used(root, plugin)
    change = _Change(root, plugin, request, look_at(root))
    deadline = time.monotonic() + timeout
    while True:
        try:
            return change.directly()
        except StoreLockedError as error:
            answer = change.by_the_writer(error.holder_pid, timeout, deadline)
            if answer is not None:
                return answer
            # The writer has closed the store meanwhile, and may not have seen the request.


@attrs.define(eq=False)
class _Change:
    root: str
    plugin: str
    request: str
    found: Traces

    def directly(self) -> Answer:
        with lock_store(self.root, derived=True, follow_links=follows_links()) as closed:
            change = closed.suspend if self.request == SUSPEND else closed.resume
            record = change(self.plugin)
        return self._answer(record, is_written=False, pid=None)

    def by_the_writer(self, pid: int | None, timeout: float, deadline: float) -> Answer | None:
        """Have the process that writes the store do it; None if that process has gone."""
        records = self.found.records
        before = records.load(self.plugin)
        records.ask(self.plugin, self.request)
        try:
            while records.is_asked(self.plugin):
                if not self.found.is_open:
                    return None
                if time.monotonic() > deadline and records.withdraw(self.plugin):
                    raise Failure(_not_taken(self.root, pid, timeout), ExitCode.LOCKED)
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            records.withdraw(self.plugin)
            raise
        # The file is removed before the work is done; the record tells when it is done.
        while True:
            record = records.load(self.plugin)
            changed = attrs.evolve(record, timestamp=before.timestamp) != before
            if self._is_done(record):
                return self._answer(record, is_written=True, pid=pid)
            is_over = time.monotonic() > deadline
            if not is_over and not self.found.is_open:
                return None
            if is_over or (changed and self.request != SUSPEND and record.state == Phase.SUSPENDED):
                raise Failure(self._not_done(record), ExitCode.UNAVAILABLE)
            time.sleep(_POLL_S)

    def _is_done(self, record: StoredPluginState) -> bool:
        if self.request == SUSPEND:
            return record.asked
        return not record.asked and record.state in (Phase.RUNNING, Phase.RETRYING)

    def _not_done(self, record: StoredPluginState) -> str:
        reason = record.last_error or "it may be stuck in a call"
        return (
            f"plugin {self.plugin!r} is still {record.state}: {reason}; "
            f"`reput plugins {self.root}` shows how it goes on"
        )

    def _answer(self, record: StoredPluginState, *, is_written: bool, pid: int | None) -> Answer:
        noted = self.found.dispatched_to(self.plugin)
        known = record.dispatched_to if noted is None else noted
        reached = max(known, record.dispatched_to) if is_written else known
        return Answer(self.root, self.plugin, record, reached, is_written, pid)


def _not_taken(root: str, pid: int | None, timeout: float) -> str:
    who = "the process that writes it" if pid is None else f"process {pid}, which writes it,"
    return (
        f"{root}: {who} has not taken the request within {timeout:g} s, and it was taken back; "
        "it may be busy (--timeout waits longer), or be no reput"
    )
