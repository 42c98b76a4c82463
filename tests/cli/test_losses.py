from __future__ import annotations

import pytest
from statefiles import forget_progress

import reput
from reput_tools.cli.kit.exitcodes import ExitCode

pytestmark = pytest.mark.shows("repair")


@pytest.fixture
def damaged(plain_store):
    """A store of which one message has a changed body, and which nobody closed."""
    path = plain_store(*(reput.Message("orders", b"body %d" % each) for each in range(20)))
    first = path / "commitlog" / ("0" * 20)
    bytes_of = bytearray(first.read_bytes())
    bytes_of[bytes_of.index(b"body 5\x06orders")] ^= 1
    first.write_bytes(bytes_of)
    (path / "abort").touch()
    forget_progress(path)
    (path / "checkpoint").unlink(missing_ok=True)
    return path


def test_where_nothing_is_noted_it_is_said_what_was_read_and_how_to_look(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x"))

    people, document = run("losses", path).out, run("losses", path, "--json").json

    size = document["read"]["log_size"]
    first, second = people.splitlines()
    assert first == f"The store at {path} has recorded no loss."
    assert second.startswith(f"This command has read 0 B of the log's {size} B. ")
    assert second.endswith(f"reput info {path} --scan")
    read = {"start_offset": size, "end_offset": size, "log_size": size}
    assert document == {"path": str(path), "problems": [], "size": 0, "read": read, "losses": []}


def test_what_is_passed_over_is_listed_though_nothing_was_changed(run, damaged) -> None:
    outcome = run("losses", damaged, "--json")

    assert outcome.code == ExitCode.OK
    (loss,) = outcome.json["losses"]
    assert loss["action"] == "skipped"
    assert loss["reason"] == "BODY_CRC"
    assert (loss["topic"], loss["queue_id"], loss["queue_offset"]) == ("orders", 0, 5)
    assert loss["kept"] is None
    assert loss["end_offset"] - loss["start_offset"] == loss["size"] == outcome.json["size"]


def test_what_a_writer_filled_is_listed_with_the_copy(run, damaged) -> None:
    original = (damaged / "commitlog" / ("0" * 20)).read_bytes()
    with reput.open(damaged):
        pass

    outcome = run("losses", damaged, "--json")
    people = run("losses", damaged)

    (loss,) = outcome.json["losses"]
    assert loss["action"] == "filled"
    with open(loss["kept"], "rb") as copy:
        # Zeros at its end are not kept.
        assert copy.read() == original[loss["start_offset"] : loss["end_offset"]].rstrip(b"\0")
    row = people.out.splitlines()[1].split()
    assert row[:2] == [str(loss["start_offset"]), str(loss["end_offset"])]
    assert "orders/0@5" in row
    assert "filled" in row
    assert "1 loss, " in people.out
    assert f"kept in {damaged}/reput/lost+found" in people.out


def test_info_mentions_what_was_lost(run, damaged) -> None:
    people = run("info", damaged, "--scan")
    document = run("info", damaged, "--scan", "--json").json

    (line,) = [line for line in people.out.splitlines() if line.startswith("  lost ")]
    assert "in 1 range" in line
    assert f"reput losses {damaged}" in line
    assert document["losses"]["count"] == 1
    assert document["losses"]["size"] > 0


def test_info_says_nothing_of_losses_where_there_are_none(run, plain_store) -> None:
    path = plain_store(reput.Message("orders", b"x"))

    assert "  lost " not in run("info", path, "--scan").out
    assert run("info", path, "--scan", "--json").json["losses"] == {
        "count": 0,
        "size": 0,
        "message_count": 0,
    }


def test_get_says_that_a_message_is_lost(run, damaged) -> None:
    with reput.open(damaged):
        pass
    (loss,) = run("losses", damaged, "--json").json["losses"]

    people = run("get", damaged, "--offset", loss["start_offset"])
    document = run("get", damaged, "--offset", loss["start_offset"], "--json")

    assert people.code == document.code == ExitCode.DAMAGED
    assert people.out == ""
    assert f"physical offset {loss['start_offset']} is lost: BODY_CRC" in people.err
    assert f"reput losses {damaged}" in people.err
    assert document.json == {"hole": True, "physical_offset": loss["start_offset"], **loss}


def test_get_shows_what_still_can_be_read_of_a_damaged_message(run, damaged) -> None:
    (loss,) = run("losses", damaged, "--json").json["losses"]

    outcome = run("get", damaged, "--offset", loss["start_offset"])

    assert outcome.code == ExitCode.OK
    assert "THE BODY DOES NOT MATCH IT" in outcome.out


def test_messages_put_where_the_log_was_cut_can_be_had(run, damaged) -> None:
    with reput.open(damaged, config={"commitlog": {"recovery": "rocketmq"}}) as store:
        receipt = store.put(reput.Message("orders", b"in its place"))
    losses = run("losses", damaged, "--json").json["losses"]

    outcome = run("get", damaged, receipt.msg_id, "--raw")

    assert [loss["action"] for loss in losses] == ["cut"]
    assert losses[0]["start_offset"] == receipt.physical_offset
    assert outcome.raw == b"in its place"


@pytest.mark.costly
def test_the_ledger_can_be_read_while_another_process_writes(run, damaged, writer) -> None:
    writer(damaged)

    outcome = run("losses", damaged, "--json")

    assert outcome.code == ExitCode.OK
    assert [loss["action"] for loss in outcome.json["losses"]] == ["filled"]
