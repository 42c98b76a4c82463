"""One script of requests, to a broker of RocketMQ 5.3.3 and to ours: the same answers.

`tests/server/test_recorded_answers.py` compares ours with what was recorded of that broker;
``REPUT_RECORD=1`` records it again. What may differ is listed in `sameanswers.allowed`.
"""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest
import realbroker
from realbroker import RocketMQ
from sameanswers import script
from sameanswers.allowed import unexpected
from sameanswers.playing import HOST, play_with_ours
from sameanswers.recorded import Parts, differences_from_recorded, parts_in, write_recorded
from sameanswers.run import Run
from sameanswers.stores import differing_files, differing_records


@attrs.frozen
class Played:
    """What the script has left there, and here: the answers of the real broker, and both stores."""

    answers: Parts
    theirs: Path
    ours: Path


@pytest.fixture(scope="module")
def played(newest: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Played:
    names_port, port = realbroker.free_ports(), realbroker.free_ports(1, -2)
    home, ours = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours") / "store"
    options = {"store": home / "store", "port": port, "enablePropertyFilter": "true"}
    options["transactionCheckInterval"] = 3_600_000  # it would give up what is born in 2023
    with (
        newest.name_server(home / "names", names_port) as names,
        newest.broker(home / "broker", names.address, **options),
        Run((HOST, port), (HOST, names_port)) as run,
    ):
        script.play(run)
    play_with_ours(ours, names_port, port, None)
    return Played(parts_in(run), home / "store", ours)


def test_a_real_broker_answers_as_recorded(played: Played):
    if os.environ.get("REPUT_RECORD"):
        write_recorded(played.answers)

    differences = differences_from_recorded(played.answers)

    assert [str(each) for each in unexpected(differences)] == []


def test_the_script_asks_for_everything(played: Played):
    codes = {parts.get("code") for parts in played.answers.values()}

    assert len(played.answers) > 500
    assert codes >= {0, 1, 3, 13, 16, 17, 19, 20, 21, 22, 24, 25, 26, 29}


def test_the_logs_hold_the_same_records(played: Played):
    assert differing_records(played.theirs, played.ours) == []


def test_the_brokers_files_say_the_same(played: Played):
    assert differing_files(played.theirs, played.ours) == []
