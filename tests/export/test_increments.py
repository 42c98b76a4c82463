"""Increments hold each message once, whatever stops an export in between."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow.dataset as ds
import pytest
from commands import cli_runner
from dledgerlog import DLedgerLog
from sparkstores import FILE_SIZE, fill, messages_of

import reput
from reput.files import Disk
from reput_arrow.codederrors import CodedError
from reput_arrow.export.exporter import incremental
from reput_arrow.export.exporter.exportjob import export
from reput_tools.cli.kit.exitcodes import ExitCode
from reput_tools.cli.root import reput as command
from reput_tools.offline import LocalEngine


def go_on(root, target, **options):
    return export(str(root), target, LocalEngine(1), incremental=True, **options)


def offsets_in(target):
    """Physical offsets of all rows, as a reader of the directory finds them."""
    found = ds.dataset(target, partitioning="hive").to_table(columns=["physical_offset"])
    return sorted(found["physical_offset"].to_pylist())


def offsets_of(root):
    return [message.physical_offset for message in messages_of(root)]


def test_each_increment_holds_what_is_new(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 150)

    first = go_on(root, out)
    nothing = go_on(root, out)
    fill(root, 130, first=150)
    second = go_on(root, out)

    assert (first.increment, first.message_count) == (1, 150)
    assert (nothing.increment, nothing.message_count, nothing.file_count) == (None, 0, 0)
    assert (second.increment, second.message_count) == (2, 130)
    assert offsets_in(out) == offsets_of(root)
    assert sorted(each.name for each in out.iterdir()) == [
        "_lock",
        "export=0000000001",
        "export=0000000002",
    ]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out", "store"]


def test_increments_of_dledger_hold_what_is_committed(tmp_path):
    fill(tmp_path / "store", 60)
    ledger, out = DLedgerLog(tmp_path / "node"), tmp_path / "out"
    for message in messages_of(tmp_path / "store"):
        ledger.append(message.record)

    counts = []
    for committed in (40, 40, 59):
        ledger.write(committed, leader="n1")
        counts.append(go_on(ledger.root, out).message_count)

    assert counts == [41, 0, 19]
    assert offsets_in(out) == ledger.offsets

    (ledger.folder / "checkpoint").unlink()
    with pytest.raises(CodedError, match=r"OPTION.*checkpoint"):
        go_on(ledger.root, out)


def test_beside_a_writer_each_message_is_exported_once(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    config = {"commitlog": {"file_size": FILE_SIZE}}
    with reput.open(root, plugins=(), config=config) as store:
        for number in range(300):
            store.put(reput.Message("T", b"x" * (number % 90)))
            if number % 37 == 0:
                go_on(root, out)
    go_on(root, out)

    assert offsets_in(out) == offsets_of(root)


class Stopped(Exception):
    """The machine stops here."""


@pytest.mark.parametrize("step", range(20))
def test_an_export_that_is_stopped_at_any_step_is_made_up_for(tmp_path, monkeypatch, step):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 60)
    go_on(root, out, partition_by=())
    fill(root, 40, first=60)
    calls = []

    def dying(name):
        original = getattr(Disk, name)

        def act(self, *args, **kwargs):
            calls.append(name)
            if len(calls) == step + 1:
                raise Stopped
            return original(self, *args, **kwargs)

        return act

    with monkeypatch.context() as patched:
        for name in ("replace", "flush", "flush_directory", "rename", "lock"):
            patched.setattr(Disk, name, dying(name))
        try:
            go_on(root, out, partition_by=())
        except Stopped:
            pass
    made = go_on(root, out, partition_by=())

    assert offsets_in(out) == offsets_of(root)
    if step >= len(calls):
        assert made.increment is None
    assert len(calls) <= 19  # so that the last step is that of an export nobody stopped
    assert not [each for each in tmp_path.iterdir() if each.name.endswith(".staging")]


def test_what_a_killed_export_left_is_removed_and_never_read(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 60)
    go_on(root, out)
    left = tmp_path / f"_out-{'0' * 32}.staging"
    (left / "topic=T").mkdir(parents=True)
    (left / "topic=T" / "half.parquet").write_bytes(b"PAR1")
    (tmp_path / f"_other-{'0' * 32}.staging").mkdir()

    go_on(root, out)

    assert not left.exists()
    assert (tmp_path / f"_other-{'0' * 32}.staging").exists()
    assert offsets_in(out) == offsets_of(root)


def test_two_exports_to_one_place_do_not_meet(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 20)
    go_on(root, out)

    with (
        incremental.locked(str(out), Disk().at(str(tmp_path))),
        pytest.raises(CodedError, match=r"LOCKED.*another export"),
    ):
        go_on(root, out)


def test_another_order_is_refused(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 20)
    go_on(root, out, topic="topic-1")

    with pytest.raises(CodedError, match=r"topic \['topic-1'\]"):
        go_on(root, out)
    with pytest.raises(CodedError, match="form 'parquet'"):
        go_on(root, out, topic="topic-1", form="csv")


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    fill(tmp_path / "store", 5)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("x")

    with pytest.raises(CodedError, match=r"mine.txt"):
        go_on(tmp_path / "store", tmp_path / "out")

    assert (tmp_path / "out" / "mine.txt").read_text() == "x"


def test_a_log_that_was_made_again_is_told(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 100)
    go_on(root, out)
    shutil.rmtree(root)
    fill(root, 300, first=7)

    with pytest.raises(CodedError, match=r"DATA_LOSS.*recreated"):
        go_on(root, out)

    shutil.rmtree(root)
    fill(root, 3)
    with pytest.raises(CodedError, match="DATA_LOSS"):
        go_on(root, out)


def test_files_that_were_removed_before_they_were_exported_are_told_or_allowed(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 100)
    go_on(root, out)
    before = offsets_of(root)
    fill(root, 400, first=100)
    for path in sorted((root / "commitlog").iterdir())[:4]:
        path.unlink()

    with pytest.raises(CodedError, match=r"DATA_LOSS.*--allow-loss"):
        go_on(root, out)
    go_on(root, out, allow_loss=True)

    assert offsets_in(out) == sorted({*before, *offsets_of(root)})


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 2}', '{"format": 1, "logs": {"a": {"offset": -1, "tail": ""}}}']
)
def test_a_state_that_cannot_be_read_is_told(tmp_path, text):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 20)
    go_on(root, out)
    (out / "export=0000000001" / "_state.json").write_text(text)

    with pytest.raises(CodedError, match=r"DAMAGED.*_state.json"):
        go_on(root, out)


def test_damage_ends_an_increment_or_is_left_out_once(tmp_path):
    root, out = tmp_path / "store", tmp_path / "out"
    fill(root, 60)
    go_on(root, out, corrupt="skip")
    fill(root, 40, first=60)
    hit = offsets_of(root)[70]
    with open(root / "commitlog" / f"{hit // FILE_SIZE * FILE_SIZE:020d}", "r+b") as file:
        file.seek(hit % FILE_SIZE + 4)
        file.write(b"\xff")

    with pytest.raises(CodedError, match="DAMAGED"):
        go_on(root, out)
    done = go_on(root, out, corrupt="skip")
    again = go_on(root, out, corrupt="skip")

    assert (done.message_count, done.damage_count) == (39, 1)
    assert again.increment is None


def test_several_stores_go_on_each_from_its_own_place(tmp_path):
    stores = tmp_path / "stores"
    out = tmp_path / "out"
    fill(stores / "a", 30)
    go_on(stores, out)
    fill(stores / "b", 20)
    fill(stores / "a", 10, first=30)

    done = go_on(stores, out)

    assert done.message_count == 30


def test_the_command_adds_increments(tmp_path):
    root, out = str(tmp_path / "store"), str(tmp_path / "out")
    fill(root, 20)
    arguments = ["export", root, out, "--incremental", "--jobs", "1"]

    first = cli_runner().invoke(command, arguments)
    second = cli_runner().invoke(command, arguments)
    told = cli_runner().invoke(command, [*arguments, "--json"])
    other = cli_runner().invoke(command, [*arguments, "--topic", "T"])
    none = cli_runner().invoke(command, ["export", root, f"{out}-T", "--topic", "T", "--jobs", "1"])
    nowhere = cli_runner().invoke(command, ["export", f"{root}-not", out, "--incremental"])

    assert "export 1: 20 messages" in first.stdout
    assert "nothing is new" in second.stdout
    assert json.loads(told.stdout)["increment"] is None
    assert (other.exit_code, other.exception.__class__) == (ExitCode.UNAVAILABLE, SystemExit)
    assert "REPUT_" not in other.stderr
    assert none.exit_code == ExitCode.NOT_FOUND
    assert "no message of the topic 'T'" in none.stderr
    assert nowhere.exit_code == ExitCode.NOT_FOUND
    assert os.listdir(tmp_path / "out").count("export=0000000001") == 1
