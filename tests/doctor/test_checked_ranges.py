"""`reput verify`, `repair`, `report` and `info --scan` where each record must have a checksum."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from statefiles import damage_journal
from verifiedstores import FILE_SIZE, bad, checked, flip_log, kinds, only

import reput
from reput import Message
from reput.record.layout import CRC_PROPERTY_SIZE
from reput_testing import QuickDisk
from reput_tools.cli.root import reput as command
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.repair.repairrun import repair


@pytest.fixture
def stored(tmp_path):
    """A closed store with the option on since its beginning, and places and sizes of records."""
    root = tmp_path / "store"
    options = {"file_size": FILE_SIZE, "record_crc": True}
    with reput.open(
        root,
        plugins=["consumequeue"],
        config={"commitlog": options},
        threads=False,
        disk=QuickDisk(),
    ) as store:
        receipts = [
            store.put(Message("t", b"x" * 300, properties={"price": "10"})) for _ in range(60)
        ]
    return root, [(each.physical_offset, each.size) for each in receipts]


def lose_name(root, place, size):
    flip_log(root, place + size - CRC_PROPERTY_SIZE + 3, 1)


@pytest.mark.costly
def test_a_record_whose_checksum_lost_its_name_is_a_loss(stored):
    root, places = stored
    lose_name(root, *places[7])

    for jobs in (1, 2):
        report = checked(root, jobs=jobs)

        assert kinds(report) == ["log.record-crc"]
        found = only(report, "log.record-crc")
        assert found.severity is Severity.LOSS
        assert found.physical_offset == places[7][0]
        assert "no checksum property" in found.found


def test_scans_and_reports_find_it(stored):
    root, places = stored
    lose_name(root, *places[7])
    run = CliRunner().invoke

    shown = run(command, ["info", str(root), "--scan", "--json"])
    made = run(command, ["report", str(root), "--json"])

    (damage,) = json.loads(shown.stdout)["damages"]
    assert (damage["physical_offset"], damage["reason"]) == (places[7][0], "RECORD_CRC")
    assert json.loads(made.stdout)["damage_count"] == 1


def test_a_repair_leaves_the_record_out_and_its_copy_has_the_ranges(stored, tmp_path):
    root, places = stored
    lose_name(root, *places[7])

    done = repair(root, tmp_path / "repaired")

    assert [part.start_offset for part in done.plan.lost] == [places[7][0]]
    assert bad(checked(tmp_path / "repaired")) == []
    assert repair(tmp_path / "repaired", tmp_path / "again").built is None
    lose_name(tmp_path / "repaired", *places[9])
    assert kinds(checked(tmp_path / "repaired")) == ["log.record-crc"]


def test_a_damaged_note_is_damage(stored, tmp_path):
    root, _ = stored
    damage_journal(root)

    report = checked(root)

    assert kinds(report) == ["reput.journal"]
    assert only(report, "reput.journal").severity is Severity.DAMAGE
    done = repair(root, tmp_path / "repaired")
    assert "reput.state" in [each.kind for each in done.plan.notices]
