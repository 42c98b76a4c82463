"""Commands agree about one store: how many messages it has, and whether it needs a repair."""

from __future__ import annotations

import json

import pytest
from commands import commands
from verifiedstores import bad, checked, log_file, places

LOST = range(40, 60)


@pytest.fixture
def run():
    with commands() as run:
        yield run


@pytest.mark.costly
def test_all_commands_count_the_same_messages_where_some_are_lost(run, root, tmp_path):
    offsets = [each[0] for each in places(root)]
    for row in LOST:
        path = log_file(root, offsets[row])
        data = bytearray(path.read_bytes())
        at = offsets[row] % len(data)
        data[at : at + 200] = b"\xff" * 200
        path.write_bytes(data)
    repaired = tmp_path / "repaired"
    lost = run("repair", root, repaired, "--json").json["lost_message_count"]

    info = run("info", repaired, "--json").json
    scan = run("info", repaired, "--scan", "--json").json
    counts = {
        "info": sum(each["message_count"] for each in info["topics"]),
        "scan": sum(each["message_count"] for each in scan["topics"]),
        "repair": run("repair", repaired, "--dry-run", "--json").json["log"]["message_count"],
        "report": run("report", repaired, "--json").json["message_count"],
        "diff": run("diff", repaired, repaired, "--json").json["a"]["message_count"],
    }

    assert lost == len(LOST)
    assert counts == dict.fromkeys(counts, 120 - lost)
    assert info["losses"]["message_count"] == lost
    assert f"{120 - lost} ({lost} lost) in 3 topics" in run("info", repaired).out
    verified = run("verify", repaired, "--json").json["checked"]
    assert verified["messages"] - verified["fillers"] == 120 - lost


@pytest.mark.parametrize(("missing", "kind"), [("checkpoint", "checkpoint.missing")])
def test_a_file_that_the_next_opening_writes_is_a_notice_and_needs_no_repair(
    missing, kind, run, root, tmp_path
):
    (root / missing).unlink()

    report = checked(root)

    assert [each.kind for each in report.findings] == [kind]
    assert (bad(report), report.exit_code) == ([], 0)
    assert run("repair", root, "--dry-run").code == 0
    assert run("repair", root, tmp_path / "repaired", "--json").json["is_repaired"] is False


def test_a_dry_run_lists_what_a_repair_builds_again(run, root):
    path = root / "consumequeue" / "t0" / "0" / f"{0:020d}"
    path.unlink()

    people = run("repair", root, "--dry-run")
    document = run("repair", root, "--dry-run", "--json")

    assert (people.code, document.code) == (1, 1)
    assert str(path.relative_to(root)) in people.out
    assert document.json["is_needed"] is True
    assert [each["path"] for each in document.json["differences"]] == [str(path.relative_to(root))]


def test_a_repair_in_place_keeps_no_zeros_and_an_undo_reports_what_differed(run, root):
    (root / "consumequeue" / "t0" / "0" / f"{0:020d}").unlink()
    last = max((root / "commitlog").iterdir())
    before = last.read_bytes()
    assert before.endswith(b"\0" * 1_000)
    kept = root.with_name(f"{root.name}.backup")
    run("repair", root, "--in-place")
    assert (kept / "bytes").stat().st_size == 0
    with open(last, "r+b") as file:  # a message that was put since then
        file.seek(len(before) - 10)
        file.write(b"message")

    undone = run("repair", root, "--undo", "--json").json

    assert last.read_bytes() == before
    assert undone["change_count"] == 1
    assert "consumequeue" in undone["parts"]


@pytest.mark.parametrize("name", ["consumerOffset.json", "topics.json"])
def test_a_file_and_its_backup_that_are_both_damaged_are_one_finding(name, root):
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / name).write_text("")
    (root / "config" / f"{name}.bak").write_text("{")

    (found,) = bad(checked(root))

    assert (found.kind, found.file) == ("config.json", f"config/{name}")
    assert f"neither {name} nor {name}.bak can be read" in found.found
    assert found.advice.startswith("restore one of them from a copy")
    assert json.dumps(found.as_json())
