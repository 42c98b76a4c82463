"""The doctor on directories in which a broker keeps what reput does not write."""

from __future__ import annotations

import json
import shutil

import pytest
from brokerdirectories import HARMLESS, MARKED, RECORDED, filled, snapshot, unpacked
from commands import Outcome, commands
from dledgerlog import DLedgerLog
from verifiedstores import checked

from reput import Message
from reput import open as opened
from reput.errors import UnsupportedFilesError
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.repair.repairrun import repair, repair_in_place

HIDDEN = {
    "rocksdb-queues": {"consumequeue"},
}


def reput(*arguments: object) -> Outcome:
    """Run a command."""
    with commands() as run:
        return run(*arguments)


@pytest.mark.parametrize("kind", RECORDED)
def test_parts_that_cannot_be_compared_have_no_findings(kind, tmp_path):
    root = unpacked(RECORDED[kind], tmp_path)
    before = snapshot(root)

    report = checked(root)

    parts = {each.part for each in report.findings if each.severity > Severity.NOTICE}
    assert not parts & {*HIDDEN[kind], "log", "store", "config"}
    assert HIDDEN[kind] <= {each.part for each in report.not_checked}
    (found,) = [each for each in report.findings if each.kind == f"store.{kind}"]
    assert found.severity is Severity.NOTICE
    assert "not opened for writing" in found.expected
    assert not any("rebuild" in each.advice for each in report.findings if each.part != "index")
    assert snapshot(root) == before


@pytest.mark.parametrize("kind", RECORDED)
def test_no_repair_and_no_rebuild_changes_such_a_directory(kind, tmp_path):
    root = unpacked(RECORDED[kind], tmp_path)
    before = snapshot(root)

    with pytest.raises(UnsupportedFilesError):
        repair(root, tmp_path / "repaired")
    with pytest.raises(UnsupportedFilesError):
        repair_in_place(root, tmp_path / "backup")
    for arguments in (
        ("rebuild", str(root), "consumequeue"),
        ("put", str(root), "orders", "body"),
        ("backfill", str(root), "index"),
    ):
        outcome = reput(*arguments)
        assert outcome.code == 6, outcome.err
        assert "nothing was changed" in outcome.err

    assert snapshot(root) == before
    assert not (tmp_path / "repaired").exists()


@pytest.mark.costly
def test_a_log_of_dledger_is_not_repaired_in_place(tmp_path):
    root = unpacked("dledger/5.3.3-mixed", tmp_path)
    (notice,) = [each for each in checked(root).findings if each.kind == "store.dledger"]
    assert notice.advice.endswith("reput appends to it if its group has one node")
    before = snapshot(root)

    with pytest.raises(UnsupportedFilesError):
        repair_in_place(root, tmp_path / "backup")

    assert snapshot(root) == before


@pytest.mark.parametrize("case", ["4.9.7", "5.3.3-mixed", "5.5.0-killed"])
def test_queues_and_index_beside_a_log_of_dledger_are_rebuilt(case, tmp_path):
    root = unpacked(f"dledger/{case}", tmp_path)
    before = snapshot(root)
    derived = [root / "consumequeue", root / "index"]
    for each in derived:
        shutil.rmtree(each)

    assert reput("rebuild", str(root), "consumequeue", "index").code == 0

    after = snapshot(root)
    log = {path for path in before if "dledger" in str(path) or "commitlog" in str(path)}
    assert {path: after[path] for path in log} == {path: before[path] for path in log}
    assert reput("rebuild", str(root), "consumequeue", "index", "--check").code == 0
    with opened(root, "w", plugins=["consumequeue", "index"]) as store:
        store.put(Message("orders", b"more"))
    assert checked(root).exit_code == 0


def test_a_group_that_is_not_known_to_have_one_node_is_not_rebuilt(tmp_path):
    root = unpacked("dledger/5.3.3", tmp_path)
    (root / "dledger-n0" / "currterm").write_text("voteLeader=n1\ncurrTerm=0\n")
    before = snapshot(root)

    assert reput("rebuild", str(root), "consumequeue").code == 6

    assert snapshot(root) == before


def test_a_damaged_log_of_dledger_is_repaired_as_a_plain_store(tmp_path):
    root = unpacked("dledger/5.3.3", tmp_path)
    with opened(root, "r", plugins=[]) as store:
        places = [int(row) for batch in store.scan() for row in batch.physical_offset]
    data = root / "dledger-n0" / "data" / f"{0:020d}"
    spoilt = bytearray(data.read_bytes())
    spoilt[places[100] + 28 : places[100] + 36] = b"\xff" * 8  # its physical offset
    data.write_bytes(spoilt)

    outcome = reput("repair", str(root), str(tmp_path / "new"), "--json")

    done = json.loads(outcome.out)
    assert outcome.code == 8
    assert done["message_count"] == len(places) - 1
    assert [str(places[100] - 48) in each for each in done["lost"]] == [True]
    assert checked(tmp_path / "new").exit_code == 7  # the gap is a warning


@pytest.mark.parametrize("case", ["timers-killed", "timers-killed-snapshots"])
def test_a_timer_log_that_has_messages_twice_after_a_kill_is_healthy(tmp_path, case):
    root = unpacked(f"rocketmq-5.5.0/{case}", tmp_path)

    report = checked(root)

    assert {each.kind for each in report.findings} <= {"store.wheel-snapshots"}
    assert "schedule" in {each.part for each in report.not_checked}  # it was usable
    with opened(root, "r", plugins=["consumequeue", "schedule"]) as store:
        assert store.plugin("schedule").scheduled().message_count == 135  # each of them once


def test_info_does_not_advise_to_open_for_writing(tmp_path):
    root = unpacked("rocketmq-5.5.0/batch-queues", tmp_path)
    (root / "config/topics.json").unlink()

    outcome = reput("info", str(root), "--json")

    assert outcome.code == 0
    assert "opening for writing is refused" in outcome.err
    assert "fills them" not in outcome.err
    assert len(json.loads(outcome.out)["problems"]) >= 1


def test_queues_in_rocksdb_are_read_by_commands(tmp_path):
    root = unpacked(RECORDED["rocksdb-queues"], tmp_path)
    before = snapshot(root)

    info = json.loads(reput("info", str(root), "--json").out)
    report = json.loads(reput("report", str(root), "--json").out)
    lines = reput("cat", str(root), "payments", "--queue", "1", "--from", "69").out.splitlines()

    queues = {each["topic"]: len(each["queues"]) for each in info["topics"]}
    assert (queues["orders"], queues["payments"], info["problems"]) == (4, 2, [])
    assert report["message_count"] == 506
    assert ["payments/1@69" in lines[0], "payments/1@70" in lines[1]] == [True, True]
    assert len(lines) == 2
    assert snapshot(root) == before


@pytest.mark.parametrize("case", MARKED)
def test_each_kind_of_files_is_a_notice_or_a_warning(case, tmp_path):
    kind, mark = MARKED[case]
    root = filled(tmp_path / "store")
    mark(root)

    report = checked(root)

    found = {each.kind: each for each in report.findings}
    is_unread = kind == "batch-queues"  # readers get none of their messages
    assert found[f"store.{kind}"].severity is (Severity.WARNING if is_unread else Severity.NOTICE)
    assert "nothing is wrong" not in found[f"store.{kind}"].advice or not is_unread
    assert "store.strange" not in found


def test_an_unknown_file_is_a_notice_and_no_error(tmp_path):
    root = filled(tmp_path / "store")
    HARMLESS["identity of a controller"](root)
    (root / "ofRelease7").mkdir()

    report = checked(root)

    (found,) = report.findings
    assert (found.kind, found.file, found.severity) == (
        "store.strange",
        "ofRelease7",
        Severity.NOTICE,
    )
    assert report.exit_code == 0


def test_an_empty_log_file_before_the_log_of_dledger_is_a_loss(tmp_path):
    log = DLedgerLog(tmp_path / "store", base=16_384, index_size=1_024)
    path = log.root / "commitlog" / f"{0:020d}"
    log.write()
    path.parent.mkdir()
    path.touch()

    found = [each for each in checked(log.root).findings if each.kind == "log.empty-file"]

    assert [each.severity for each in found] == [Severity.LOSS]
