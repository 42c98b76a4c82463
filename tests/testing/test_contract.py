"""The contract tells good plugins from bad ones, and what is bad about them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
from ledgerplugin import HurriedContract, LedgerContract, LedgerPlugin, failures_of

import reput
from reput.errors import CorruptFileError
from reput.plugin import NoConfig
from reput_testing import PluginContract


class TestLedger(LedgerContract):
    plugin_type = LedgerPlugin


# --------------------------------------------------------------------------- bad plugins


@attrs.define(eq=False)
class CountsTwice(LedgerPlugin):
    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        self.note(batch)
        self.dispatched_to = max(self.dispatched_to, batch.end_offset)


@attrs.define(eq=False)
class SkipsByBatch(LedgerPlugin):
    """Takes a batch for known when its beginning is."""

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        if batch.start_offset >= self.dispatched_to:
            self.note(batch)
            self.dispatched_to = batch.end_offset


@attrs.define(eq=False)
class NotesBatches(LedgerPlugin):
    def note(self, batch: reput.DispatchBatch) -> None:
        if len(batch):
            self.entries.append([batch.start_offset, len(batch)])


@attrs.define(eq=False)
class KeepsTopicNumbers(LedgerPlugin):
    """Takes the topic codes of one batch for those of all."""

    names: dict[int, str] = attrs.field(factory=dict, init=False)

    def note(self, batch: reput.DispatchBatch) -> None:
        for offset, code in zip(batch.physical_offset, batch.topic_code, strict=True):
            self.entries.append(
                [int(offset), self.names.setdefault(int(code), batch.topics[int(code)])]
            )


@attrs.define(eq=False)
class KeepsViews(LedgerPlugin):
    """Reads a batch after the hook has returned."""

    last: Any = attrs.field(default=None, init=False)

    def note(self, batch: reput.DispatchBatch) -> None:
        bodies = batch.body
        if self.last is not None:
            self.entries[-1][1] = self.last[len(self.last) - 1]
        if len(batch):
            LedgerPlugin.note(self, batch)
            self.last = bodies


@attrs.define(eq=False)
class WritesIntoTheBatch(LedgerPlugin):
    def note(self, batch: reput.DispatchBatch) -> None:
        batch.window[:1] = 0
        LedgerPlugin.note(self, batch)


@attrs.define(eq=False)
class CountsFlushes(LedgerPlugin):
    flushes: int = attrs.field(default=0, init=False)

    def encode(self) -> bytes:
        self.flushes += 1
        return LedgerPlugin.encode(self) + b" " * min(self.flushes, 3)

    def load(self, data: bytes) -> None:
        LedgerPlugin.load(self, data.rstrip(b" "))


@attrs.define(eq=False)
class LosesWhatComesDuringAFlush(LedgerPlugin):
    def save(self) -> None:
        entries = list(self.entries)
        LedgerPlugin.save(self)
        self.entries = entries


@attrs.define(eq=False)
class ForgetsOnReopening(LedgerPlugin):
    """Says that it has everything, and has loaded nothing."""

    def load(self, data: bytes) -> None:
        self.dispatched_to = 1 << 60


@attrs.define(eq=False)
class TrustsTheStore(LedgerPlugin):
    """Takes the store's word for what its own files hold."""

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        self.entries = [entry for entry in self.entries if entry[0] < progress]
        self.forget(self.context.log.min_physical_offset)
        self.dispatched_to = progress
        return progress


@attrs.define(eq=False)
class KeepsWhatTheLogLost(LedgerPlugin):
    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        self.forget(self.context.log.min_physical_offset)
        return min(self.dispatched_to, progress)


@attrs.define(eq=False)
class KeepsWhatWasTrimmed(LedgerPlugin):
    def forget(self, physical_offset: int) -> None:
        pass


@attrs.define(eq=False)
class WritesWhenReading(LedgerPlugin):
    """Writes around the disk, whatever the store says."""

    @reput.hookimpl
    def reput_close(self) -> None:
        if self.context is not None and not self.context.writable:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            Path(f"{self.path}.lock").touch()


@attrs.define(eq=False)
class ReadsOnceOnly(LedgerPlugin):
    """Has the state of its opening for ever."""

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        LedgerPlugin.reput_open(self, context)
        if not context.writable and context.disk.exists(self.path):
            self.load(context.disk.read_file(self.path))

    def listed(self) -> list[list[Any]]:
        return self.entries


_entries_of_all: list[list[Any]] = []


@attrs.define(eq=False)
class SharesState(LedgerPlugin):
    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        LedgerPlugin.reput_open(self, context)
        _entries_of_all[:] = self.entries
        self.entries = _entries_of_all

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        start = LedgerPlugin.reput_recover(self, max_physical_offset, progress)
        _entries_of_all[:] = self.entries
        self.entries = _entries_of_all
        return start


@attrs.define(eq=False)
class FollowsTopics(LedgerPlugin):
    """Makes a file for every topic."""

    topics: set[str] = attrs.field(factory=set, init=False)

    def note(self, batch: reput.DispatchBatch) -> None:
        LedgerPlugin.note(self, batch)
        self.topics.update(topic for topic in batch.topics if "\0" not in topic)

    def save(self) -> None:
        LedgerPlugin.save(self)
        for topic in self.topics - {"", "."}:
            path = os.path.join(self.context.root, "ledger", f"{topic}.topic")
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                Path(path).touch()
            except OSError as error:
                raise CorruptFileError(path, 0, str(error)) from error


@attrs.define(eq=False)
class TakesFailedForDone(LedgerPlugin):
    """Moves its place before it has done what may fail."""

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        fresh = batch.after(self.dispatched_to)
        self.dispatched_to = max(self.dispatched_to, batch.end_offset)
        self.context.disk.make_directory(os.path.dirname(self.path))
        self.context.disk.replace(f"{self.path}.notes", b"")
        self.context.disk.remove(f"{self.path}.notes")
        with self.lock:
            self.note(fresh)


@attrs.define(eq=False)
class RemembersTheLastTime(LedgerPlugin):
    """Takes what it had in memory for what is in its file, when it is opened once more."""

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        if self.context is None:
            LedgerPlugin.reput_open(self, context)
        self.context = context

    @reput.hookimpl
    def reput_recover(self, max_physical_offset: int, progress: int) -> int:
        self.forget(self.context.log.min_physical_offset)
        return min(self.dispatched_to, progress)


@attrs.define(eq=False)
class WritesElsewhere(LedgerPlugin):
    def save(self) -> None:
        LedgerPlugin.save(self)
        Path(self.context.root, "ledger.log").touch()


@attrs.define(eq=False)
class LeavesItOpen(LedgerPlugin):
    file: Any = attrs.field(default=None, init=False)

    @reput.hookimpl
    def reput_open(self, context: reput.StoreContext) -> None:
        LedgerPlugin.reput_open(self, context)
        if context.disk.exists(self.path):
            self.file = context.disk.open(self.path)


@attrs.define(eq=False)
class ClosesOnce(LedgerPlugin):
    closed: bool = attrs.field(default=False, init=False)

    @reput.hookimpl
    def reput_close(self) -> None:
        if self.closed:
            raise ValueError("closed twice")
        self.closed = True


@attrs.define(eq=False)
class ClosesWhatItOpened(LedgerPlugin):
    """Has nothing to close before it was opened."""

    @reput.hookimpl
    def reput_close(self) -> None:
        self.context.disk.exists(self.path)


@attrs.define(eq=False)
class HidesErrors(LedgerPlugin):
    def save(self) -> None:
        try:
            LedgerPlugin.save(self)
        except OSError:
            pass


@attrs.define(eq=False)
class HasNoChecksum(LedgerPlugin):
    def load(self, data: bytes) -> None:
        try:
            self.dispatched_to, self.entries = json.loads(data[4:].decode("latin-1"))
        except ValueError as error:
            raise CorruptFileError(self.path, 0, str(error)) from error


@attrs.define(eq=False)
class RaisesAnything(LedgerPlugin):
    def load(self, data: bytes) -> None:
        if zlib.crc32(data[4:]) != int.from_bytes(data[:4], "big"):
            raise RuntimeError("what is this")
        self.dispatched_to, self.entries = json.loads(data[4:])


@attrs.define(eq=False)
class ForgetsTheMark(LedgerPlugin):
    def reput_arrive(self, batch: reput.DispatchBatch) -> None:
        """Never called."""


@attrs.define
class ComparesByValue(LedgerPlugin):
    __hash__ = None  # type: ignore[assignment]


@attrs.define(kw_only=False)
class LooseConfig:
    limit: int = 1


@attrs.define(eq=False)
class IsLooselyConfigured(LedgerPlugin):
    config_type: ClassVar[type] = LooseConfig

    @classmethod
    def from_section(cls, name: str, section: Any) -> IsLooselyConfigured:
        return cls(LooseConfig(**{k: v for k, v in section.items() if k == "limit"}))


@attrs.define(eq=False)
class ReportsObjects(LedgerPlugin):
    @reput.hookimpl
    def reput_report(self) -> dict[str, object]:
        return {"context": self.context}


@attrs.define(eq=False)
class HasAFormerHook(LedgerPlugin):
    @reput.hookimpl
    def reput_commands(self, group: Any) -> None:
        group.command("ledger")(lambda: self.context.root)


# What each kind of mistake shows up in.
COMES_AGAIN = {"test_messages_that_come_again_change_nothing"}
BATCHES = {"test_where_batches_end_changes_nothing"}
FLUSHES = {"test_when_it_is_flushed_changes_nothing"}
OVERLAP = {"test_flushing_may_overlap_dispatching"}
TWO_STORES = {"test_two_stores_share_nothing"}
OWN_FILES = {"test_it_writes_into_its_own_files_only"}
TOPICS = {"test_topics_lead_nowhere_out_of_its_files"}
REOPENED = {"test_reopening_keeps_the_state", "test_a_reopened_plugin_goes_on"}
DELETED = {"test_deleted_files_are_rebuilt"}
CUT = {"test_a_log_that_was_cut_is_followed"}
REWRITTEN = {"test_a_log_that_was_rewritten_is_followed"}
KILLED = {"test_a_killed_process_is_caught_up"}
TRIMMED = {"test_what_was_trimmed_is_forgotten"}
READING = {
    "test_reading_only_writes_nothing",
    "test_reading_only_before_it_ever_wrote_makes_nothing",
}
FOLLOWING = {"test_a_reader_follows_the_writer"}
CLOSED_EARLY = {"test_closing_needs_no_opening"}
CLOSED_TWICE = {"test_closing_twice_is_closing_once"}
LEFT_OPEN = {"test_closing_leaves_nothing_open"}
GARBLED = {"test_garbled_files_are_noticed"}
REMOVED = {"test_removed_files_are_noticed"}
DAMAGED = {
    "test_emptied_files_are_noticed",
    "test_torn_files_are_noticed",
    "test_zeroed_files_are_noticed",
    "test_grown_files_are_noticed",
    *GARBLED,
}
FAULTS = {
    "test_a_full_disk_is_an_error_and_no_damage",
    "test_a_failed_write_or_flush_is_an_error_and_no_damage",
}
IN_A_STORE = {
    "test_a_store_builds_the_same",
    "test_an_old_store_is_caught_up_with",
    "test_a_read_only_store_shows_the_same",
    "test_a_store_suspends_and_resumes_it",
}
MARKED = {"test_every_hook_is_marked_and_known"}
IDENTITY = {"test_plugins_are_compared_by_identity"}
OPTIONS = {
    "test_an_unknown_option_is_an_error_that_names_the_known",
    "test_its_configuration_is_a_frozen_class_of_keywords_with_defaults",
    "test_every_option_has_a_docstring",
}
REPORT = {"test_its_report_can_be_written_as_json"}
FORMER = {
    "test_every_hook_is_marked_and_known",
    "test_marked_methods_have_the_names_of_hooks",
}
TRIED_AGAIN = {"test_a_failed_dispatch_can_be_tried_again"}
FULL = {"test_a_disk_that_is_full_for_a_while_stops_nothing"}
LOST_FLUSH = {"test_a_plugin_that_lost_its_last_flush_is_cut_and_goes_on"}
OPENED_AGAIN = {"test_a_plugin_may_be_opened_once_more", *LOST_FLUSH}
# Tests in which batches end in other places than in the run they compare with.
CUT_SOMEWHERE = {
    *(COMES_AGAIN | BATCHES | FLUSHES | OVERLAP | TWO_STORES | REOPENED | CUT | REWRITTEN),
    *(KILLED | FAULTS | IN_A_STORE | TRIED_AGAIN | FULL | OPENED_AGAIN),
}


@pytest.mark.proof
@pytest.mark.parametrize(
    ("plugin_type", "must_fail", "may_fail"),
    [
        (CountsTwice, COMES_AGAIN, set()),
        (SkipsByBatch, COMES_AGAIN, set()),
        (NotesBatches, BATCHES, CUT_SOMEWHERE),
        (KeepsTopicNumbers, BATCHES, CUT_SOMEWHERE),
        (KeepsViews, BATCHES, CUT_SOMEWHERE),
        (WritesIntoTheBatch, BATCHES, None),
        (CountsFlushes, FLUSHES, OVERLAP | FULL | OPENED_AGAIN | IN_A_STORE),
        (LosesWhatComesDuringAFlush, OVERLAP, set()),
        (ForgetsOnReopening, REOPENED, None),
        (TrustsTheStore, DELETED | REMOVED | DAMAGED, set()),
        (KeepsWhatTheLogLost, CUT | REWRITTEN, set()),
        (KeepsWhatWasTrimmed, TRIMMED, set()),
        (WritesWhenReading, READING, DAMAGED | REMOVED | IN_A_STORE),
        (ReadsOnceOnly, FOLLOWING | REMOVED, set()),
        (SharesState, TWO_STORES, set()),
        (FollowsTopics, TOPICS, CUT | REWRITTEN | DAMAGED | REMOVED),
        (WritesElsewhere, OWN_FILES | TOPICS, set()),
        (LeavesItOpen, LEFT_OPEN, DAMAGED | IN_A_STORE),
        (ClosesOnce, CLOSED_TWICE, OPENED_AGAIN),
        (TakesFailedForDone, TRIED_AGAIN | FULL, FAULTS),
        (RemembersTheLastTime, LOST_FLUSH, CUT | REWRITTEN),
        (ClosesWhatItOpened, CLOSED_EARLY, set()),
        (HidesErrors, FAULTS, set()),
        (HasNoChecksum, GARBLED, set()),
        (RaisesAnything, DAMAGED, set()),
        (ForgetsTheMark, MARKED, None),
        (ComparesByValue, IDENTITY, set()),
        (IsLooselyConfigured, OPTIONS, set()),
        (ReportsObjects, REPORT, set()),
        (HasAFormerHook, FORMER, None),
    ],
)
@pytest.mark.costly
def test_a_bad_plugin_fails_what_it_does_wrong_and_nothing_else(
    plugin_type, must_fail, may_fail, tmp_path
):
    # What one plugin leaves open must not look like another one's: pytest gives names again.
    home = tmp_path / plugin_type.__name__
    home.mkdir()

    failed = failures_of(plugin_type, home).keys()

    assert failed >= must_fail
    assert may_fail is None or failed <= must_fail | may_fail


RAISING = """
import reput
from ledgerplugin import HurriedContract, LedgerPlugin


class Raising(LedgerPlugin):
    @reput.hookimpl
    def reput_dispatch(self, batch):
        raise ValueError("as always")


class TestContract(HurriedContract):
    plugin_type = Raising
"""


@pytest.mark.parametrize(
    ("chosen", "counts"),
    [("come_again", "1 error"), ("any_message_is_taken or come_again", "1 failed, 1 skipped")],
)
@pytest.mark.costly
def test_what_a_plugin_always_raises_is_shown_once_whatever_tests_are_chosen(
    chosen, counts, tmp_path
):
    (tmp_path / "test_raising.py").write_text(RAISING)
    support = str(Path(__file__).parents[1] / "support")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "test_raising.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": support},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1, done.stdout
    assert "ValueError: as always" in done.stdout
    assert counts in done.stdout.splitlines()[-1]


def test_the_contract_is_told_which_damage_the_format_cannot_show(tmp_path):
    contract = type("Contract", (LedgerContract,), {"plugin_type": HasNoChecksum})()
    contract.undetectable = frozenset({"garbled"})  # type: ignore[misc]

    contract.test_garbled_files_are_noticed(tmp_path)


def test_a_contract_without_a_way_to_read_the_state_says_so(tmp_path):
    contract = type("Contract", (PluginContract,), {"plugin_type": LedgerPlugin})()

    with pytest.raises(NotImplementedError, match="Contract must say how"):
        contract.test_reopening_keeps_the_state(tmp_path)


def test_a_contract_names_the_plugin_that_is_not_installed():
    contract = type("Contract", (PluginContract,), {"plugin_name": "nowhere"})()

    with pytest.raises(pytest.fail.Exception, match="no plugin named 'nowhere' is installed"):
        contract.test_it_is_a_plugin_found_under_its_name()


@pytest.mark.parametrize(
    ("line", "value", "wrong"),
    [
        ("weigh Weigh things.", "weigh", None),
        ("weigh", "weigh", None),
        ("weigh Sell things.", "weigh", "says: Sell things"),
        ("silent Weigh things.", "silent", "does not say what it does"),
        ("none Weigh things.", "none", "is not a click.Command"),
    ],
)
def test_the_contract_looks_at_the_commands_beside_the_plugin(
    tmp_path, monkeypatch, line, value, wrong
):
    pytest.importorskip("click")
    module = f"commands_{tmp_path.name}"
    (tmp_path / f"{module}.py").write_text(
        "import click\n\n"
        '@click.command()\ndef weigh():\n    "Weigh things."\n\n'
        "@click.command()\ndef silent():\n    pass\n\n"
        "none = None\n"
    )
    about = tmp_path / "scales-1.5.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scales\nVersion: 1.5\n")
    (about / "entry_points.txt").write_text(
        f"[reput.plugins]\nscales = {module}:Plugin\n[reput.commands]\n{line} = {module}:{value}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    contract = type("Contract", (PluginContract,), {"plugin_name": "scales"})()

    if wrong is None:
        contract.test_its_commands_say_what_they_do()
    else:
        with pytest.raises(AssertionError, match=wrong):
            contract.test_its_commands_say_what_they_do()


def test_the_state_that_is_compared_is_a_copy(tmp_path):
    contract = type("Contract", (LedgerContract,), {"plugin_type": LedgerPlugin})()
    log = contract.log()

    with contract.driver(tmp_path / "store", log) as driver:
        driver.dispatch_range(0, 2)
        early = contract.outcome(driver)
        driver.catch_up()

    assert len(early.state) == 2


@attrs.define(eq=False)
class RemembersOnly(reput.Plugin):
    """A good plugin without files: it reads the log again each time."""

    config: Any = attrs.field(factory=NoConfig)
    seen: list[int] = attrs.field(factory=list, init=False)

    @reput.hookimpl
    def reput_recover(self) -> int:
        self.seen = []
        return 0

    @reput.hookimpl
    def reput_dispatch(self, batch: reput.DispatchBatch) -> None:
        last = self.seen[-1] if self.seen else -1
        self.seen += batch.after(last + 1).physical_offset.tolist()


class RemembersOnlyContract(HurriedContract):
    def state(self, plugin: RemembersOnly) -> object:
        return plugin.seen


@pytest.mark.costly
def test_a_plugin_without_files_is_tested_without_them(tmp_path):
    failed = failures_of(RemembersOnly, tmp_path, RemembersOnlyContract)

    assert failed.keys() == TRIMMED
