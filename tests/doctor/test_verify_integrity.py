"""Where a store has checksums of whole records, verifying finds any changed bit."""

from __future__ import annotations

import pytest
from verifiedstores import FILE_SIZE, flip, places, tree

import reput
from reput_integrity import check
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.repair.repairrun import repair
from reput_tools.doctor.verification.verifyrun import verify

CONFIG = {"commitlog": {"file_size": FILE_SIZE}}


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "store"
    with reput.open(path, plugins=["consumequeue", "integrity"], config=CONFIG) as store:
        for number in range(60):
            store.put(reput.Message("orders", b"x" * 40, keys=f"key{number}"))
    return path


def test_a_sound_store_has_no_findings_and_nothing_is_left_out(root):
    before = tree(root)

    report = verify(root)

    assert list(report.findings) == []
    assert list(report.not_checked) == []
    assert tree(root) == before


def test_a_bit_that_no_checksum_of_rocketmqs_covers_is_a_loss_with_its_message(root):
    place = places(root)[7][0]
    path = root / "commitlog" / f"{place - place % FILE_SIZE:020d}"
    at = path.read_bytes().index(b"key7")
    flip(path, at)

    (finding,) = verify(root).findings

    assert finding.severity == Severity.LOSS
    assert (finding.kind, finding.file) == ("integrity.record", f"commitlog/{path.name}")
    assert finding.position == place % FILE_SIZE
    assert [each.queue_offset for each in finding.messages] == [7]
    assert "do not rebuild integrity" in finding.advice


def test_a_damaged_sum_is_no_loss(root):
    flip(root / "integrity" / "sums" / f"{0:020d}", 16 * 3 + 9)

    (finding,) = verify(root).findings

    assert finding.severity == Severity.DAMAGE
    assert (finding.kind, finding.position) == ("integrity.unit", 48)


@pytest.mark.shows("sums")
def test_a_repair_hides_no_changed_bit(root, tmp_path):
    place = places(root)[7][0]
    path = root / "commitlog" / f"{place - place % FILE_SIZE:020d}"
    flip(path, path.read_bytes().index(b"key7"))
    lost = places(root)[20][0]
    flip(root / "commitlog" / f"{lost - lost % FILE_SIZE:020d}", lost % FILE_SIZE + 100)

    repair(root, tmp_path / "new", jobs=1)
    found = list(check(tmp_path / "new"))

    assert [(each.queue_offset, each.origin) for each in found] == [(7, "written")]
