"""A message that the log has lost is shown where it stood, before a writer mends it and after."""

from __future__ import annotations

import pytest

import reput
from reput_tools.cli.kit.exitcodes import ExitCode


@pytest.fixture(params=["as it was found", "mended"])
def damaged(request, golden_store):
    """A store of RocketMQ's in which one bit of one message was flipped."""
    path = golden_store("crash-bit-flip")
    if request.param == "mended":
        with reput.open(path):
            pass
    return path


def lost(run, path):
    (loss,) = run("losses", path, "--json").json["losses"]
    return loss


def test_the_hole_is_one_line_on_stderr(run, damaged) -> None:
    loss = lost(run, damaged)
    queue = f"{loss['topic']}/{loss['queue_id']}@{loss['queue_offset']}"

    outcome = run("cat", damaged, loss["topic"], "--format", "%q %o")

    assert outcome.code == ExitCode.DAMAGED
    (line,) = outcome.err.splitlines()
    assert line.startswith(f"reput: {queue} is lost (physical offset {loss['start_offset']}, ")
    assert f"{loss['queue_id']} {loss['queue_offset']}" not in outcome.out.splitlines()
    assert f"{loss['queue_id']} {loss['queue_offset'] + 1}" in outcome.out.splitlines()


def test_the_hole_is_an_object_in_its_place(run, damaged) -> None:
    loss = lost(run, damaged)

    lines = run("cat", damaged, loss["topic"], "--queue", loss["queue_id"], "--json").lines

    assert [line["queue_offset"] for line in lines] == list(range(len(lines)))
    (hole,) = [line for line in lines if line.get("hole")]
    assert hole["queue_offset"] == loss["queue_offset"]
    assert hole["physical_offset"] == loss["start_offset"]
    assert (hole["topic"], hole["queue_id"]) == (loss["topic"], loss["queue_id"])
    assert hole["reason"]


def test_the_log_itself_shows_the_same_hole(run, damaged) -> None:
    loss = lost(run, damaged)

    lines = run("cat", damaged, loss["topic"], "--scan", "--json").lines

    (hole,) = [line for line in lines if line.get("hole")]
    assert hole["queue_offset"] == loss["queue_offset"]
    assert hole["size"] == loss["size"]
    assert hole["reason"] == loss["reason"] == "BODY_CRC"


def test_other_topics_have_no_hole(run, damaged) -> None:
    other = {"orders": "payments"}.get(lost(run, damaged)["topic"], "orders")

    for options in ((), ("--scan",)):
        outcome = run("cat", damaged, other, *options)

        assert outcome.code == ExitCode.OK
        assert outcome.err == ""
