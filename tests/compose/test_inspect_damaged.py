"""What can be told of a damaged store is told by every command that only looks, damage included."""

from __future__ import annotations

import json
import os
import shutil

import pytest
from commands import cli_runner
from statefiles import damage_journal

import reput
from reput.errors import CorruptFileError
from reput_tools.cli.root import reput as command_line

NOTES = ["checkpoint", "reput/state"]
COMMANDS = {
    "info": ("info",),
    "plugins": ("plugins",),
    "losses": ("losses",),
    "cat": ("cat", "orders"),
    "grep": ("grep", "-t", "orders", "--tag", "*"),
    "get": ("get", "--offset", "0"),
    "clean": ("clean", "--dry-run", "--max-bytes", "1GB"),
}
SHOWS_MESSAGES = {"cat", "grep", "get"}
"""These have no document about the store."""


def _run(store, command):
    name, *options = COMMANDS[command]
    return cli_runner().invoke(command_line, [name, str(store), *options, "--json"])


def _make_directory(path):
    path.unlink()
    path.mkdir()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "store"
    config = {"commitlog": {"file_size": 1 << 12}}
    with reput.open(path, plugins=["consumequeue"], config=config) as store:
        for number in range(40):
            store.put(reput.Message("orders", b"body %d " % number + b"x" * 100))
    return path


@pytest.fixture
def long_store(tmp_path):
    """A store of five log files."""
    path = tmp_path / "long"
    config = {"commitlog": {"file_size": 1 << 12}}
    with reput.open(path, plugins=["consumequeue"], config=config) as store:
        for number in range(80):
            store.put(reput.Message("orders", b"body %d " % number + b"x" * 100))
        assert store.log.file_count == 5
    return path


@pytest.fixture
def store(sound, tmp_path):
    return shutil.copytree(sound, tmp_path / "store")


def _check(store, command, named, codes=(0,)):
    """The exit code is documented, and the damage is named to people and to programs."""
    shown = _run(store, command)

    assert shown.exit_code in codes, shown.output
    assert named in shown.stderr
    if command in SHOWS_MESSAGES:
        assert "body 0" in shown.stdout
    problems = _problems(shown.stdout, command)
    assert any(named in problem for problem in problems) or not named, problems


def _problems(output, command):
    """What programs are told; in lines of messages first of all."""
    if command not in ("cat", "grep"):
        return json.loads(output).get("problems", [])
    lines = [json.loads(line) for line in output.splitlines()]
    problems = [line["problem"] for line in lines if "problem" in line]
    assert all(line.keys() == {"problem"} for line in lines[: len(problems)])
    return problems


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_cannot_be_read_is_named_and_passed_over(store, note, command):
    _make_directory(store / note)

    _check(store, command, str(store / note))


@pytest.mark.parametrize("content", [b"", b"\xff{garbled"], ids=["emptied", "garbled"])
@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_is_damaged_is_named_and_passed_over(store, note, content):
    (store / note).write_bytes(content)

    _check(store, "info", str(store / note))


def test_notes_that_are_missing_are_no_problem(store):
    for note in NOTES:
        (store / note).unlink()

    shown = _run(store, "info")

    assert (shown.exit_code, json.loads(shown.stdout)["problems"]) == (0, []), shown.output


CONFIGS = {
    "delayOffset.json": "schedule",
    "delayOffset.json.bak": "schedule",
    "timercheck": "schedule",
    "timermetrics": "schedule",
    "consumerOffset.json": "transaction",
    "consumerOffset.json.bak": "transaction",
    "consumerFilter.json": "filter",
    "topics.json": "compaction",
    "topics.json.bak": "compaction",
}


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A store that uses every plugin, and has none of the files yet that brokers configure."""
    path = tmp_path_factory.mktemp("full") / "store"
    config = {"commitlog": {"file_size": 1 << 12}}
    plugins = ["consumequeue", *sorted(set(CONFIGS.values()))]
    with reput.open(path, plugins=plugins, config=config) as store:
        for number in range(40):
            store.put(reput.Message("orders", b"body %d " % number + b"x" * 100))
    shutil.rmtree(path / "config")
    return path


def test_files_that_brokers_configure_may_be_missing(full):
    shown = _run(full, "info")

    assert (shown.exit_code, json.loads(shown.stdout)["problems"]) == (0, []), shown.output


@pytest.mark.parametrize("content", [b"", b"\xff{garbled"], ids=["emptied", "garbled"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_that_plugins_read_and_that_says_nothing_is_named(full, tmp_path, name, content):
    store = shutil.copytree(full, tmp_path / "store")
    file = store / "config" / name
    file.parent.mkdir()
    if name.endswith(".bak"):  # it is read where the file itself cannot be
        file.with_suffix("").write_bytes(content)
    file.write_bytes(content)

    for command in ("info", "cat"):
        _check(store, command, str(file))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_journal_is_named(store, command):
    damage_journal(store)

    _check(store, command, str(store / "reput/state"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_in_place_of_the_notes_is_named(store, command):
    shutil.rmtree(store / "reput")
    (store / "reput").write_text("")

    _check(store, command, str(store / "reput"))


def test_nothing_would_be_cleaned_where_the_rules_cannot_be_read(store):
    (store / "reput/state").write_bytes(b"")

    done = cli_runner().invoke(command_line, ["clean", str(store), "--dry-run", "--json"])

    assert (done.exit_code, json.loads(done.stdout)["files"]) == (0, []), done.output


def _cut_short(store, index):
    file = sorted((store / "commitlog").iterdir())[index]
    os.truncate(file, 1000)
    return file


def _remove_the_second(store):
    files = sorted((store / "commitlog").iterdir())
    files[1].unlink()
    return files[2]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "hurt",
    [lambda store: _cut_short(store, -1), lambda store: _cut_short(store, 0), _remove_the_second],
    ids=["last cut short", "first cut short", "second removed"],
)
def test_a_log_file_that_is_cut_short_or_gone_is_named_beside_the_rest(store, hurt, command):
    named = str(hurt(store))

    # 1: some of what was to be shown is lost, and the output says where.
    _check(store, command, named, codes=(0, 1) if command in ("cat", "grep") else (0,))


def _bodies(store, *options):
    shown = cli_runner().invoke(command_line, ["cat", str(store), "orders", "--json", *options])
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    return shown.exit_code, [line["body"] for line in lines if "body" in line], lines


def _remove(*indexes):
    def remove(store):
        files = sorted((store / "commitlog").iterdir())
        for index in indexes:
            files[index].unlink()

    return remove


def _garble_in_front_of_a_gap(store):
    files = sorted((store / "commitlog").iterdir())
    with open(files[0], "r+b") as file:
        file.seek(3000)
        file.write(b"\xff" * 1000)
    files[1].unlink()


@pytest.mark.parametrize(
    "hurt",
    [
        _remove(1),
        _remove(1, 2),
        _remove(1, 3),
        _garble_in_front_of_a_gap,
        lambda store: _cut_short(store, 0),
        lambda store: _cut_short(store, 1),
    ],
    ids=["one", "two", "two apart", "garbled before", "first cut short", "second cut short"],
)
def test_a_scan_goes_on_behind_log_files_that_are_gone(long_store, hurt):
    hurt(long_store)

    code, scanned, lines = _bodies(long_store, "--scan")
    _, read, _ = _bodies(long_store)

    assert code == 1
    assert scanned == read
    assert "body 79 " in scanned[-1]
    assert any(line.get("hole") for line in lines)
    counted = cli_runner().invoke(command_line, ["info", str(long_store), "--scan", "--json"])
    [topic] = json.loads(counted.stdout)["topics"]
    assert (counted.exit_code, topic["message_count"]) == (1, len(read))


def test_messages_of_a_damaged_store_can_be_put_into_another(store, tmp_path):
    _make_directory(store / "reput/state")
    printed = cli_runner().invoke(command_line, ["cat", str(store), "orders", "--json"])

    done = cli_runner().invoke(
        command_line,
        ["put", str(tmp_path / "other"), "orders", "--json-lines", "--create"],
        input=printed.stdout,
    )

    assert done.exit_code == 0, done.output
    assert "1 of the lines describe damage of the source of the messages" in done.stderr
    with reput.open(tmp_path / "other", "r") as other:
        assert sum(len(batch) for batch in other.scan()) == 40


@pytest.mark.parametrize("refused", ["reput", "reput/state", "checkpoint"])
def test_what_may_not_be_read_is_named_and_passed_over(store, refused, monkeypatch):
    real_open = os.open

    def refuse(path, flags, *arguments, **options):  # the superuser may read everything
        directory = options.get("dir_fd")
        if directory is not None:
            opened = os.readlink(f"/proc/self/fd/{directory}")
            if os.path.join(opened, path) == str(store / refused):
                raise PermissionError(13, "Permission denied", str(store / refused))
        return real_open(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)

    _check(store, "cat", str(store / refused))


@pytest.mark.parametrize("note", NOTES)
def test_a_writer_refuses_a_note_that_cannot_be_read(store, note):
    _make_directory(store / note)

    with pytest.raises(OSError, match=note):
        reput.open(store)


def test_a_writer_refuses_a_log_file_that_is_cut_short(store):
    file = _cut_short(store, 0)

    with pytest.raises(CorruptFileError, match=file.name):
        reput.open(store)
