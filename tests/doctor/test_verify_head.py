"""`reput verify` and `reput repair` on logs whose first files are gone."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from verifiedstores import FILE_SIZE, SMALL, bad, checked, flip, kinds, only, places

import reput
from reput_tools.cli.root import reput as command
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.repair.repairrun import repair, repair_in_place
from reput_tools.doctor.verification.verifyrun import verify

pytestmark = pytest.mark.shows("lost-ends")


def first_file(root):
    return min((root / "commitlog").iterdir())


def test_a_first_file_that_is_gone_is_a_loss_that_names_its_messages(root):
    count = sum(place < FILE_SIZE for place, *_ in places(root))
    first_file(root).unlink()

    report = checked(root)

    assert kinds(report) == ["log.head-missing"]
    found = only(report, "log.head-missing")
    assert found.severity is Severity.LOSS
    assert (found.file, found.size) == (f"commitlog/{0:020}", FILE_SIZE)
    assert found.message_count == count
    assert {str(each) for each in found.messages} >= {"t0/0@0", "t1/1@0", "t2/0@0"}
    assert report.exit_code == 8


def test_each_file_that_is_gone_is_named(root):
    for _ in range(2):
        first_file(root).unlink()

    report = checked(root)

    files = sorted(each.file for each in bad(report))
    assert files == [f"commitlog/{0:020}", f"commitlog/{FILE_SIZE:020}"]


def test_a_head_that_was_trimmed_is_healthy(root):
    with reput.open(root, threads=False) as store:
        assert store.trim_log(store.log.file_offsets[-1]).min_physical_offset > 0

    report = checked(root)

    assert report.worst is None
    assert not [each for each in report.not_checked if each.part == "log"]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_repair_notes_the_loss_and_its_result_is_healthy(in_place, root, tmp_path):
    first_file(root).unlink()

    if in_place:
        done = repair_in_place(root, tmp_path / "kept")
    else:
        done = repair(root, tmp_path / "repaired")

    assert done.plan.head.size == FILE_SIZE
    assert done.plan.has_losses
    after = verify(done.target)
    assert bad(after) == []
    with reput.open(done.target, mode="r") as store:
        (loss,) = store.losses()
        assert (loss.start_offset, loss.end_offset, loss.reason) == (0, FILE_SIZE, "GONE")
    again = repair(done.target, tmp_path / "again")
    assert again.built is None


def test_the_commands_say_it_and_end_with_8(root, tmp_path):
    first_file(root).unlink()
    run = CliRunner().invoke

    planned = run(command, ["repair", str(root), "--dry-run", "--json"])
    assert json.loads(planned.stdout)["head"] == {"start_offset": 0, "end_offset": FILE_SIZE}
    assert planned.exit_code == 8
    repaired = run(command, ["repair", str(root), str(tmp_path / "repaired")])
    assert repaired.exit_code == 8
    assert "16.0 KiB of the log are lost" in repaired.stdout
    lost = run(command, ["losses", str(root)])
    assert "GONE" in lost.stdout
    shown = run(command, ["info", str(root)])
    assert f"the log begins at {FILE_SIZE} instead of 0" in shown.output


def test_what_another_program_may_have_removed_is_not_known_and_the_report_says_so(root):
    with open(root / "lock", "r+b") as file:
        file.write(b"lock")  # as RocketMQ writes it
    first_file(root).unlink()

    report = checked(root)

    assert bad(report) == []
    (unknown,) = [each.reason for each in report.not_checked if each.part == "log"]
    assert f"whether files before physical offset {FILE_SIZE} were removed on purpose" in unknown
    assert "the log began at 0 when reput last wrote the store" in unknown


def test_a_store_of_rocketmq_whose_old_files_went_is_healthy(root):
    first_file(root).unlink()
    shutil.rmtree(root / "reput")
    (root / "lock").write_bytes(b"lock")

    report = checked(root, config={name: SMALL[name] for name in ("consumequeue", "index")})

    assert bad(report) == []
    (unknown,) = [each.reason for each in report.not_checked if each.part == "log"]
    assert "RocketMQ removes old files and leaves no note" in unknown


@pytest.mark.parametrize("slots", [(0,), (4096,), (0, 4096)])
def test_a_damaged_note_is_damage_and_no_loss(slots, root):
    for slot in slots:
        flip(root / "reput" / "state", slot + 20)

    report = checked(root)

    assert kinds(report) == (["reput.state"] if len(slots) == 2 else [])  # one slot is enough
    assert report.worst is (Severity.DAMAGE if len(slots) == 2 else None)


def test_without_a_note_nobody_knows_where_the_log_began(root):
    first_file(root).unlink()
    (root / "reput" / "state").unlink()

    report = checked(root)

    assert kinds(report) == ["reput.manifest", "reput.state"]
    (unknown,) = [each.reason for each in report.not_checked if each.part == "log"]
    assert f"before physical offset {FILE_SIZE} are missing, because reput/state" in unknown
