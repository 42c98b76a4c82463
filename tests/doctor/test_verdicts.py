"""Verdicts claim no more than was checked: who is suspect, and what no checksum covers."""

from __future__ import annotations

import itertools
import json
import shutil

import attrs
import pytest
from click.testing import CliRunner
from verifiedstores import (
    GROWING,
    SMALL,
    START,
    bad,
    checked,
    flip,
    flip_log,
    log_file,
    own_store,
    places,
)

import reput
from reput import Message
from reput.files import Disk
from reput_tools.cli.root import reput as command
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.repair.brokerconfigrepair import plan_config
from reput_tools.doctor.verdict import verdict_of

RECORD = 19, 51, 70, 75  # flag, born host, store host, count of retries


def run(*arguments):
    return CliRunner().invoke(command, [str(each) for each in arguments])


def files_of(directory):
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def last_line(result):
    return result.stdout.rstrip().rpartition("\n")[2]


def change_keys(root, row=50):
    """Change a letter of a message's KEYS in the log; no checksum covers it."""
    place = places(root)[row][0]
    path = log_file(root, place)
    data = bytearray(path.read_bytes())
    at = data.index(b"KEYS\x01k", place % len(data)) + 5
    data[at] ^= 4
    path.write_bytes(data)


def change_record(root, text, bits, row=50):
    """Change the last byte of a text in the record of a message."""
    place = places(root)[row][0]
    path = log_file(root, place)
    data = bytearray(path.read_bytes())
    data[data.index(text, place % len(data)) + len(text) - 1] ^= bits
    path.write_bytes(data)


ONE_BIT = {
    "key": (b"KEYS\x01k5", 1),
    "name of the keys": (b"KEYS", 1),
    "end of the keys": (b"KEYS\x01k50\x02", 1),
    "topic": (b"\x02t2", 8),
    "tags": (b"TAGS\x01a", 1),
}


@pytest.fixture
def growing(tmp_path):
    return own_store(tmp_path / "growing", sizes=GROWING)


@pytest.mark.parametrize("store", ["root", "growing"])
@pytest.mark.parametrize(("text", "bits"), ONE_BIT.values(), ids=ONE_BIT)
def test_a_bit_of_a_record_gives_one_finding_that_names_the_message(text, bits, store, request):
    root = request.getfixturevalue(store)
    place, _, queue_id, queue_offset = places(root)[50]
    change_record(root, text, bits)

    report = checked(root)

    (found,) = [each for each in report.findings if each.severity is Severity.DAMAGE]
    assert [each.physical_offset for each in found.messages] == [place]
    assert found.message_count == 1
    assert found.suspects[0] == "commitlog"
    if text != b"TAGS\x01a":  # a unit with other tags stands at its place
        assert found.found.startswith("1 message disagrees with ")
        assert f"/{queue_id}@{queue_offset} at {place}" in found.found
    assert "disagree about 1 message. All checksums of the log match" in verdict_of(report)


@pytest.mark.parametrize("sizes", [SMALL, GROWING], ids=["full", "growing"])
def test_a_key_that_a_record_has_lost_is_one_finding(sizes, tmp_path):
    root = tmp_path / "store"
    clock = itertools.count(START, 700)
    with reput.open(
        root,
        plugins=["index"],
        config={name: sizes[name] for name in ("commitlog", "index")},
        threads=False,
        clock=lambda: next(clock),
    ) as store:
        for number in range(70):
            store.put(Message("t", b"x", keys=f"a{number} b{number}", born_timestamp=START))
    change_record(root, b"KEYS\x01a50 ", 1, row=50)

    report = checked(root)

    (found,) = bad(report)
    assert found.kind == "index.item"
    assert [each.physical_offset for each in found.messages] == [places(root)[50][0]]
    assert "disagree about 1 message" in verdict_of(report)


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize(
    ("change", "kind", "touched"),
    [
        (lambda units: [*units[:5], *units[6:]], "unit", 5),
        (lambda units: [*units[:5], *units[4:]], "unit", 4),
        (lambda units: units[:-1], "size", 19),
        (lambda units: [*units[:5], *reversed(units[5:-1])], "unit", None),
    ],
    ids=["removed", "doubled", "cut", "in another order"],
)
def test_units_that_moved_are_one_finding(change, kind, touched, grows, tmp_path):
    sizes = GROWING if grows else {**GROWING, "commitlog": SMALL["commitlog"]}
    root = own_store(tmp_path / "store", sizes=sizes)
    path = root / "consumequeue" / "t0" / "0" / ("0" * 20)
    data = path.read_bytes()
    units = [data[at : at + 20] for at in range(0, 400, 20)]
    path.write_bytes(b"".join(change(units)).ljust(0 if grows else len(data), b"\0"))

    (found,) = bad(checked(root))

    assert found.kind == f"consumequeue.{kind if grows else 'unit'}"
    if touched is not None:
        offsets = [place for place, *queue, _ in places(root) if queue == ["t0", 0]]
        assert [each.physical_offset for each in found.messages] == [offsets[touched]]


def change_header(root):
    for row, byte in enumerate(RECORD, 10):
        flip_log(root, places(root)[row][0] + byte)


@pytest.mark.parametrize("change", ["log", "index"])
def test_a_contradiction_names_both_suspects_and_does_not_advise_to_rebuild_first(change, root):
    if change == "log":
        change_keys(root)
    else:
        path = min((root / "index").iterdir())
        flip(path, 40 + 4 * 11 + 20 * 5)

    report = checked(root)

    assert report.worst is Severity.DAMAGE
    assert report.exit_code == 1
    for found in bad(report):
        assert found.suspects == ("commitlog", found.file)
        assert found.advice.startswith("find out which is wrong, the log or index/")
        assert "all checksums match" in found.advice
    assert [found.message_count for found in bad(report)] == [1]
    assert verdict_of(report) == (
        "damaged: the log and the key index disagree about 1 message. All checksums of the log "
        "match, so either may be wrong."
    )


def test_a_file_that_lacks_something_is_itself_wrong(root):
    for path in (root / "consumequeue" / "t0" / "0").iterdir():
        path.unlink()

    report = checked(root)

    assert [each.suspects for each in bad(report)] == [()]
    assert verdict_of(report) == (
        "damaged: files of consumequeue are damaged, and can be rebuilt from the log. All "
        "checksums of the log match."
    )


def checksummed_store(root, plugins=("consumequeue", "index"), **options):
    config = {"commitlog": {"file_size": 1 << 20, **options}}
    if "index" in plugins:
        config["index"] = {"slots_per_file": 1_000, "items_per_file": 4_000}
    with reput.open(root, plugins=list(plugins), config=config, threads=False) as store:
        for number in range(30):
            store.put(Message("t", b"x", keys=f"k{number}", born_timestamp=START))
    return root


@pytest.mark.proof
@pytest.mark.parametrize("how", ["record_crc", "integrity"])
def test_where_checksums_cover_the_log_the_derived_file_is_wrong(how, tmp_path):
    if how == "record_crc":
        root = checksummed_store(tmp_path / "store", record_crc=True)
    else:
        root = checksummed_store(tmp_path / "store", ("consumequeue", "index", "integrity"))
    path = min((root / "index").iterdir())
    with reput.open(root, mode="r") as store:
        slots = store.plugin("index").config.slots_per_file
    flip(path, 40 + 4 * slots + 20 * 5)

    report = checked(root)

    assert [each.suspects for each in bad(report)] == [()] * len(bad(report))
    assert bad(report)[0].advice == f"reput rebuild {root} index"
    assert "every byte of every record" in report.not_covered


def test_the_last_line_says_what_no_checksum_covers(root, tmp_path):
    change_header(root)

    result = run("verify", root)

    assert result.exit_code == 0  # nothing can know it
    assert last_line(result) == (
        "No checksum covers the header, topic and properties of any record, or the files in "
        "config/: a change there can go unnoticed."
    )
    assert json.loads(run("verify", root, "--json").stdout)["not_covered"] == last_line(result)
    assert last_line(run("repair", root, tmp_path / "repaired")) == last_line(result)


@pytest.mark.proof
def test_records_without_a_checksum_among_others_are_counted(tmp_path):
    root = checksummed_store(tmp_path / "store", record_crc=True)
    checksummed_store(root, record_crc=False)

    assert "of 30 of 60 records" in checked(root).not_covered


def test_a_log_without_messages_is_not_called_healthy(tmp_path):
    with reput.open(tmp_path / "store", plugins=()):
        pass

    report = checked(tmp_path / "store")

    assert report.is_healthy
    assert "no message that could be checked" in verdict_of(report)


# --------------------------------------------------------------------------- repair


@pytest.mark.costly
def test_a_repair_repeats_the_doubt_and_keeps_what_the_index_said(root, tmp_path):
    change_keys(root)
    said = min((root / "index").iterdir())
    before = said.read_bytes()
    (touched,) = bad(checked(root))[0].messages
    name = f"{attrs.evolve(touched, key=None)} at {touched.physical_offset}"

    planned = run("repair", root, "--dry-run")
    (doubt,) = json.loads(run("repair", root, "--dry-run", "--json").stdout)["doubts"]
    result = run("repair", root, tmp_path / "repaired")

    assert planned.exit_code == 1
    assert doubt["messages"] == [attrs.asdict(touched)]
    for shown in (planned, result):
        assert "In doubt: the log or the derived file is wrong" in shown.stdout
        assert name in shown.stdout
        assert "No message is known to be lost" not in shown.stdout
        assert "In 1 place the log and derived files disagree" in shown.stdout
    assert result.exit_code == 7
    assert f"index/{said.name}" in result.stdout
    kept = tmp_path / "repaired" / "reput" / "lost+found" / "derived" / "index" / said.name
    assert kept.read_bytes() == before
    assert bad(checked(tmp_path / "repaired")) == []


def test_a_repair_in_place_repeats_the_doubt_and_names_the_backup(root, tmp_path):
    change_keys(root)
    said = min((root / "index").iterdir())
    before = said.read_bytes()

    result = run("repair", root, "--in-place", "--backup", tmp_path / "kept")

    assert result.exit_code == 7
    assert "In doubt" in result.stdout
    assert before in [path.read_bytes() for path in (tmp_path / "kept").rglob(said.name)]


@pytest.mark.proof
def test_sums_that_contradict_the_log_are_kept_by_a_repair(tmp_path):
    root = checksummed_store(tmp_path / "store", ("consumequeue", "integrity"))
    path = min((root / "commitlog").iterdir())
    flip(path, 60)
    sums = files_of(root / "integrity")

    result = run("repair", root, tmp_path / "repaired")

    assert result.exit_code == 7
    kept = tmp_path / "repaired" / "reput" / "lost+found" / "derived" / "integrity"
    assert files_of(kept) == sums


def test_a_repair_of_a_log_says_that_derived_files_were_not_compared(root, tmp_path):
    flip_log(root, places(root)[5][0] + 100)

    result = run("repair", root, tmp_path / "repaired")

    assert result.exit_code == 8
    assert f"were not compared with those of {root}" in result.stdout


# --------------------------------------------------------------------------- offsets of groups


def with_offsets(root, text, backup=None):
    directory = root / "config"
    directory.mkdir(exist_ok=True)
    (directory / "consumerOffset.json").write_bytes(text)
    if backup is not None:
        (directory / "consumerOffset.json.bak").write_bytes(backup)
    return root


SOUND = b'{"offsetTable":{"t0@group":{0:7}}}'


@pytest.mark.parametrize(
    "text", [b"{garbled", SOUND.replace(b"offsetTable", b"offsetTabld"), b"", b"\0" * 30]
)
def test_groups_that_lose_their_place_are_in_the_verdict(text, root):
    with_offsets(root, text)

    report = checked(root)

    assert report.worst is Severity.DAMAGE
    assert "consumer groups lose their place, unless config/consumerOffset.json is restored" in (
        verdict_of(report)
    )


def test_a_repair_that_leaves_offsets_out_says_that_groups_lose_their_place(root, tmp_path):
    with_offsets(root, b"{garbled")

    result = run("repair", root, tmp_path / "repaired")

    assert result.exit_code == 7
    assert "consumer groups lose their place" in result.stdout
    kept = tmp_path / "repaired" / "reput" / "lost+found" / "config" / "consumerOffset.json"
    assert kept.read_bytes() == b"{garbled"


@pytest.mark.parametrize(
    "text", [b"{garbled", SOUND.replace(b"{0:7}", b"[]"), SOUND.replace(b":7", b':"x"')]
)
def test_a_repair_that_takes_a_backup_says_that_it_is_older(root, tmp_path, text):
    with_offsets(root, text, SOUND)

    result = run("repair", root, tmp_path / "repaired")

    assert result.exit_code == 7
    assert "which may be older" in " ".join(result.stdout.split())
    assert (tmp_path / "repaired" / "config" / "consumerOffset.json").read_bytes() == SOUND


@pytest.mark.parametrize("backup", [b"{garbled", SOUND.replace(b"{0:7}", b"7")])
def test_a_repair_keeps_offsets_with_a_wrong_one_if_the_backup_is_no_better(tmp_path, backup):
    text = b'{"offsetTable":{"t0@group":{0:"x"},"t0@other":{0:7}}}'
    with_offsets(tmp_path, text, backup)

    assert plan_config(str(tmp_path), Disk(), {}) == []


def test_a_copy_of_a_sound_store_is_not_changed_by_a_repair(root, tmp_path):
    shutil.rmtree(root)
    own_store(root)

    result = run("repair", root, tmp_path / "repaired")

    assert result.exit_code == 0
    assert "every checksum of the log matches" in result.stdout
