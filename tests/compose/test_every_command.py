"""Whatever is wrong with the path or the store: each command ends with its code, and one line."""

from __future__ import annotations

import re
import shutil
import tempfile

import click
import pytest
from commands import commands
from permissions import forbid, forbid_writing
from statefiles import manifest_of

import reput
from reput.errors import CorruptFileError
from reput_testing import snapshot
from reput_tools.cli.root import reput as command_line

ID = "7F0000010001A1B2C3D400000000002A"
SMALL = {"commitlog": {"file_size": 1 << 16}}
CALLS = {
    "info": [(), ("--scan",), ("--json",)],
    "cat": [("orders",), ("orders", "--scan"), ("orders", "--where", "a > 1")],
    "get": [("--offset", "0"), ("k",), ("k", "--topic", "orders"), (ID,)],
    "grep": [("-t", "orders", "--key", "k"), ("--where", "a > 1"), ("text", "--tag", "a")],
    "put": [("orders",)],
    "metrics": [(), ("--json",)],
    "plugins": [(), ("--json",)],
    "backfill": [("index",)],
    "rebuild": [("index",), ("index", "--check")],
    "suspend": [("index",)],
    "resume": [("index",)],
    "dead-letters": [("index",)],
    "losses": [()],
    "fill": [(), ("--json",)],
    "clean": [("--max-bytes", "1GB"), ("--max-bytes", "1GB", "--dry-run")],
    "compact": [(), ("orders",), ("--json",)],
    "consume": [("g", "orders"), ("g", "orders", "--json")],
    "groups": [(), ("--json",)],
    "reset-offset": [("g", "orders", "--to", "earliest", "--yes")],
    "promote": [("--yes",), ("--yes", "--json")],
    "repair": [("--dry-run",), ("--dry-run", "--json")],
    "report": [(), ("--json",)],
    "schedule": [(), ("--json",)],
    "sql": [("SELECT max(size) FROM messages",), ("FROM messages", "--json")],
    "scrub": [("--rate", "0"), ("--rate", "0", "--json")],
    "verify": [(), ("--deep", "--json")],
    "transactions": [(), ("--json",), ("--commit", ID, "--yes"), ("--roll-back", ID, "--yes")],
}
WITHOUT_STORE = {
    *(
        "completion",
        "convert",
        "demo",
        "diff",
        "dlq",
        "export",
        "follow",
        "import",
        "browse",
        "serve",
        "spark",
        "topics",
    ),
}
"""They need none, make their own, or have tests of their own, as they take two places."""
LOOKS = {
    "groups",
    "metrics",
    "info",
    "cat",
    "get",
    "grep",
    "plugins",
    "losses",
    "report",
    "schedule",
}
"""Commands that show what can be shown where the store's notes cannot be read."""


def _named(group, context, above=()):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _named(command, context, (*above, name))
        else:
            yield " ".join((*above, name))


def _calls(names=CALLS):
    return [(name, *options) for name in CALLS if name in names for options in CALLS[name]]


def _id(call):
    return " ".join(call)


@pytest.fixture
def run():
    with commands() as run:
        yield lambda call, path: run(call[0], path, *call[1:], stdin="a line\n")


@pytest.fixture
def store(tmp_path):
    """A store that uses no plugin."""
    path = tmp_path / "store"
    with reput.open(path, plugins=[], config=SMALL) as opened:
        opened.put(reput.Message("orders", b"body", keys="k"))
    return path


@pytest.fixture
def full_store(tmp_path):
    """A store that uses the plugins that the calls name."""
    path = tmp_path / "full"
    plugins = ["compaction", "consumequeue", "index", "schedule", "transaction"]
    sizes = {"slots_per_file": 64, "items_per_file": 64}  # tests read all files as a whole
    with reput.open(path, plugins=plugins, config={**SMALL, "index": sizes}) as opened:
        opened.put(reput.Message("orders", b"body", keys="k"))
    return path


def _check_line(outcome, *parts):
    """One line on stderr, which says what to do next or what is in the way; nothing on stdout."""
    assert outcome.err.startswith("reput: "), outcome
    assert outcome.err.count("\n") == 1, outcome.err
    assert "internal error" not in outcome.err
    for part in parts:
        assert part in outcome.err, outcome.err
    assert outcome.out == ""


def test_every_command_is_called_here():
    fresh = type(command_line)("reput")  # without commands that other tests have offered
    found = set(_named(fresh, click.Context(fresh)))

    assert {name for name in found if name.partition(" ")[0] not in WITHOUT_STORE} == set(CALLS)


# --------------------------------------------------------------------------- no store there


def _nothing(tmp_path):
    return tmp_path / "none"


def _empty(tmp_path):
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def _file(tmp_path):
    (tmp_path / "file").write_text("no store")
    return tmp_path / "file"


def _below_a_file(tmp_path):
    return _file(tmp_path) / "store"


def _log_is_a_file(tmp_path):
    (_empty(tmp_path) / "commitlog").write_text("no log")
    return tmp_path / "empty"


@pytest.mark.parametrize("call", _calls(), ids=_id)
@pytest.mark.parametrize("place", [_nothing, _empty, _below_a_file, _log_is_a_file])
def test_where_there_is_no_store_it_is_not_found(tmp_path, run, call, place):
    path = place(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    outcome = run(call, path)

    assert outcome.code == 3, outcome
    _check_line(outcome, str(path))
    # The next step may name another command with this option, but not an option of this command
    # that does not exist.
    own = re.sub(r"`reput put \S+ TOPIC BODY --create`", "", outcome.err)
    assert ("--create" in own) == (call[0] == "put")
    assert sorted(tmp_path.rglob("*")) == before


# --------------------------------------------------------------------------- no permission


@pytest.mark.parametrize("call", _calls(), ids=_id)
@pytest.mark.parametrize("refused", [".", "commitlog"])
def test_a_store_that_may_not_be_read_is_unavailable(full_store, run, monkeypatch, call, refused):
    forbid(monkeypatch, full_store / refused)

    outcome = run(call, full_store)

    if refused == "commitlog" and call[0] in ("suspend", "resume", "dead-letters"):
        assert outcome.code == 0  # they need no log
    else:
        assert outcome.code == 5, outcome
        _check_line(outcome, str(full_store / refused), "Permission denied")


@pytest.mark.parametrize("call", _calls(), ids=_id)
def test_notes_that_may_not_be_read_are_named_and_never_taken_for_none(
    store, run, monkeypatch, call
):
    forbid(monkeypatch, store / "reput")

    outcome = run(call, store)

    assert str(store / "reput") in outcome.err + outcome.out  # a report says it in its text
    assert "internal error" not in outcome.err
    if call[0] in LOOKS:
        assert outcome.code in (0, 3), outcome
    elif call[0] in ("transactions", "clean"):
        # They look first, and find nothing to be done.
        assert outcome.code in (0, 3), outcome
    else:
        assert outcome.code == 5, outcome
        _check_line(outcome, "Permission denied")


CHANGES_NOTHING = (
    *((name, *options) for name in sorted(LOOKS) for options in CALLS[name]),
    ("rebuild", "index", "--check"),
    ("rebuild", "--check", "--jobs", "2"),
    ("repair", "--dry-run"),
    ("repair", "NEW"),
    ("scrub", "--rate", "0"),
    ("verify",),
    ("verify", "--deep"),
)


@pytest.mark.parametrize("call", CHANGES_NOTHING, ids=_id)
def test_what_changes_nothing_needs_no_permission_to_write(
    full_store, tmp_path, run, monkeypatch, call
):
    call = [str(tmp_path / "new") if part == "NEW" else part for part in call]
    expected = run(call, full_store).code
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    before = snapshot(full_store)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    forbid_writing(monkeypatch, full_store)

    outcome = run(call, full_store)

    assert expected in (0, 3), outcome
    assert outcome.code == expected, outcome
    assert snapshot(full_store) == before
    assert [*tmp_path.iterdir()] == [full_store]


# --------------------------------------------------------------------------- another writer

ALONE = {"fill", "put", "rebuild", "compact", "consume", "reset-offset", "promote", "repair"}
"""Commands that need the store for themselves."""


@pytest.mark.parametrize("call", [*_calls(), ("plugins", "--remove", "index", "--yes")], ids=_id)
def test_a_store_that_is_being_written_is_left_to_its_writer(full_store, run, call):
    with reput.open(full_store, plugins=manifest_of(full_store).plugins):
        outcome = run(call, full_store)

    if call[0] in ALONE or "--remove" in call:
        assert outcome.code == 4, outcome
        _check_line(outcome, "being written by process")
    else:
        assert outcome.code in (0, 3), outcome


# --------------------------------------------------------------------------- without the plugin

WITHOUT = {
    "rebuild": (3, "`reput backfill {store} index`"),
    "suspend": (3, "`reput backfill {store} index`"),
    "resume": (3, "`reput backfill {store} index`"),
    "dead-letters": (3, "`reput backfill {store} index`"),
    "compact": (3, "`reput backfill {store} compaction`"),
}
"""Commands that are about what a plugin keeps; the code, and the next step that is named."""


@pytest.mark.parametrize("call", _calls(WITHOUT), ids=_id)
def test_of_a_plugin_that_the_store_does_not_use_the_next_step_is_named(store, run, call):
    code, step = WITHOUT[call[0]]

    outcome = run(call, store)

    assert outcome.code == code, outcome
    _check_line(outcome, step.format(store=store))
    assert manifest_of(store).plugins == ()


@pytest.mark.parametrize("call", _calls(CALLS.keys() - WITHOUT.keys()), ids=_id)
def test_other_commands_serve_without_plugins_or_say_what_they_need(store, run, call):

    outcome = run(call, store)

    assert outcome.code in (0, 3, 5), outcome
    assert "internal error" not in outcome.err
    if outcome.code:
        _check_line(outcome)
    if outcome.code == 5:
        steps = ("pip install", "reput backfill", "not a replica")
        assert any(step in outcome.err for step in steps)


# --------------------------------------------------------------------------- a broken plugin

NEEDS = {
    "compact": ("compaction",),
    "schedule": ("schedule",),
    "transactions": ("transaction",),
}


@pytest.mark.parametrize("call", _calls(NEEDS), ids=_id)
def test_of_a_plugin_that_cannot_be_opened_the_reason_is_given(tmp_path, run, monkeypatch, call):
    [name] = NEEDS[call[0]]
    path = tmp_path / "store"
    with reput.open(path, plugins=["consumequeue", name], config=SMALL) as opened:
        opened.put(reput.Message("orders", b"body", keys="k"))
        kind = type(opened.plugin_objects[name])

    def refuse(self, context):
        raise CorruptFileError(str(path / "a-file"), 7, "not today")

    monkeypatch.setattr(kind, "reput_open", reput.hookimpl(refuse))
    outcome = run(call, path)

    assert outcome.code == 5, outcome
    assert "not today" in outcome.err.splitlines()[-1]
    assert "internal error" not in outcome.err
