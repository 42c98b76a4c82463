"""`reput verify` on files that are cut short: one finding for each, which says where it ends."""

from __future__ import annotations

import json
import shutil

import pytest
from verifiedstores import bad, checked, only, own_store

import reput
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.verdict import verdict_of

pytestmark = [pytest.mark.proof, pytest.mark.sizes(consumequeue={"extend_file_size": 1 << 20})]


def cut(path, size):
    """Cut a file to ``size`` bytes."""
    with open(path, "r+b") as file:
        file.truncate(size)


def one_finding(root, path):
    """Return what a check finds in a store one file of which is wrong."""
    (found,) = bad(checked(root))
    assert found.file == path.relative_to(root).as_posix()
    return found


@pytest.mark.parametrize("size", [0, 1, 13, 20, 133, 200, 399])
def test_a_queue_file_that_is_cut_short_is_one_finding(root, size):
    path = root / "consumequeue" / "t0" / "0" / f"{0:020d}"
    cut(path, size)

    found = one_finding(root, path)

    assert (found.kind, found.severity) == ("consumequeue.size", Severity.DAMAGE)
    assert (found.found, found.position, found.size) == (
        f"end of file at byte {size}",
        size,
        400 - size,
    )
    assert found.expected == "400 bytes"
    assert found.message_count == 20 - size // 20
    assert found.messages[0].queue_offset == size // 20
    assert found.suspects == ()
    assert found.advice.endswith("consumequeue")


@pytest.mark.parametrize("size", [0, 1, 30, 60, 400, 900])
def test_an_index_file_that_is_cut_short_is_one_finding(root, size):
    path = min((root / "index").iterdir())
    whole = path.stat().st_size
    cut(path, size)

    found = one_finding(root, path)

    assert (found.kind, found.found) == ("index.size", f"end of file at byte {size}")
    assert found.expected == f"{whole} bytes"


@pytest.mark.parametrize("size", [0, 5, 16, 100])
def test_a_file_of_sums_that_is_cut_short_is_one_finding(tmp_path, size):
    pytest.importorskip("reput_integrity")
    root = own_store(tmp_path / "store", plugins=("consumequeue", "integrity"))
    path = root / "integrity" / "sums" / f"{0:020d}"
    cut(path, size)

    found = one_finding(root, path)

    assert (found.kind, found.found) == ("integrity.size", f"end of file at byte {size}")


def test_damage_before_the_end_of_a_short_file_has_a_finding_of_its_own(root):
    path = root / "consumequeue" / "t0" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[47] ^= 1
    path.write_bytes(data[:200])

    report = checked(root)

    assert [each.kind for each in bad(report)].count("consumequeue.size") == 1
    assert only(report, "consumequeue.unit").position == 47


def test_slots_that_are_cut_short_say_where_they_end(root):
    path = root / "reput" / "state"
    cut(path, 30)

    assert "end of file at byte 30" in [each.found for each in checked(root).findings]


def test_a_journal_that_is_cut_short_says_where_it_ends(root):
    path = root / "reput" / "state"
    cut(path, 8200)

    assert one_finding(root, path).position == 8192


@pytest.mark.costly
def test_a_document_of_a_broker_that_is_cut_short_says_where_it_ends(root):
    path = root / "config" / "topics.json"
    path.parent.mkdir()
    text = json.dumps({"topicConfigTable": {"t0": {"order": True}}})
    for end in range(len(text)):
        path.write_text(text[:end])
        assert one_finding(root, path).found == f"end of file at byte {end}"


@pytest.fixture
def with_notes(tmp_path, monkeypatch):
    """A store with a compacted topic and a timer, whose files hold more than the log does."""
    compaction = pytest.importorskip("reput_compaction").CompactionPlugin
    schedule = pytest.importorskip("reput_schedule")
    monkeypatch.setattr(compaction, "log_file_size", 4096)
    monkeypatch.setattr(compaction, "queue_file_size", 46 * 200)
    root = tmp_path / "store"
    config = {"commitlog": {"file_size": 65536}, "compaction": {"topics": ["t0"]}}
    names = {"consumequeue", "compaction", "schedule"}
    with reput.open_store(root, plugins=names, config=config) as store:
        for number in range(20):
            store.put(reput.Message("t0", b"y" * 50, keys=f"k{number % 5}"))
        store.put(schedule.delayed(reput.Message("t1", b"later"), delay_ms=3_600_000))
        store.wait_dispatched()
        store.plugin_objects["compaction"].compact()
    return root


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("compaction/compactionCq/t0/0/00000000000000000000", "compaction.cut"),
        ("compaction/compactionLog/t0/0/00000000000000000000", "compaction.cut"),
        ("compaction/position-checkpoint", "compaction.cut"),
        ("reput/compaction/t0/0/00000000000000000000", "compaction.cut"),
        ("reput/compaction/t0/0/tombstones", "compaction.cut"),
        ("config/timercheck", "schedule.cut"),
        ("config/timermetrics", "schedule.cut"),
    ],
)
@pytest.mark.costly
def test_a_file_that_no_rebuild_makes_is_one_finding_when_it_is_cut_short(with_notes, name, kind):
    path = with_notes / name
    whole = path.read_bytes()
    assert bad(checked(with_notes)) == []

    for size in sorted({0, 1, len(whole) // 2, len(whole) - 1}):
        path.write_bytes(whole[:size])
        found = one_finding(with_notes, path)

        assert (found.kind, found.found) == (kind, f"end of file at byte {size}")
        assert found.position == size
        assert "restore the file" in found.advice
        assert "cannot be rebuilt" in verdict_of(checked(with_notes))


def test_an_empty_file_that_a_killed_writer_had_begun_is_a_notice(with_notes, tmp_path):
    killed = tmp_path / "killed"
    with reput.open_store(with_notes):
        shutil.copytree(with_notes, killed)
    path = killed / "compaction/compactionCq/t0/0/00000000000000000000"
    path.write_bytes(b"")

    found = [each for each in checked(killed).findings if each.file.endswith(path.name)]

    assert ("compaction.unfinished", Severity.NOTICE) in [
        (each.kind, each.severity) for each in found
    ]
    assert all(each.severity is Severity.NOTICE for each in found)


def extended_store(root, queues):
    config = {
        "commitlog": {"file_size": 1 << 20},
        "consumequeue": {"extend": True, "units_per_file": 600},
    }
    with reput.open(root, plugins={"consumequeue"}, config=config) as store:
        store.put_many([reput.Message("t0", b"x", at % queues, tags="a") for at in range(500)])
        assert store.wait_dispatched(20)
    return root, root / "consumequeue_ext" / "t0" / "0" / f"{0:020d}"


@pytest.mark.parametrize("queues", [1, 3])
@pytest.mark.parametrize("size", [0, 1_007])
def test_an_extend_file_that_is_cut_short_is_one_finding(tmp_path, size, queues):
    root, path = extended_store(tmp_path / "store", queues)
    whole = path.stat().st_size
    cut(path, size)

    found = one_finding(root, path)

    assert (found.kind, found.severity) == ("consumequeue.size", Severity.DAMAGE)
    assert (found.found, found.position) == (f"end of file at byte {size}", size)
    assert found.expected.startswith(f"{whole} bytes")
    assert found.message_count == len(range(0, 500, queues)) - size // 20
    assert (found.suspects, found.advice.split()[-1]) == ((), "consumequeue")


def test_extend_units_without_a_file_or_with_zeros_are_one_finding(tmp_path):
    root, path = extended_store(tmp_path / "store", queues=3)
    data = path.read_bytes()
    path.write_bytes(data[:1_000] + bytes(len(data) - 1_000))

    found = one_finding(root, path)

    count = 167
    assert (found.kind, found.found, found.position) == ("consumequeue.unit", "zeros", 1_000)
    assert found.expected.startswith(f"{count - 50} extend units, to which unit 50 ")
    assert found.message_count == count - 50
    path.unlink()

    found = one_finding(root, path)

    assert (found.kind, found.found) == ("consumequeue.missing", "no file")
    assert found.message_count == count


def test_an_extend_unit_that_is_wrong_is_shown_beside_the_right_one(tmp_path):
    root, path = extended_store(tmp_path / "store", 1)
    data = bytearray(path.read_bytes())
    data[1_005] ^= 1
    path.write_bytes(data)

    found = only(checked(root), "consumequeue.unit")

    place = f"which leads to consumequeue_ext/t0/0/{0:020d}, byte 1000: size 20, tags code "
    assert place in found.found
    assert place in found.expected
    assert found.found != found.expected
