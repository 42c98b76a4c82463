"""The zoo: sick stores of every kind are named, mended, and serve everything that was not damaged.

A part of it runs here; all of it with ``REPUT_ZOO=all`` (``tox -e zoo``). The stores themselves are
made by ``PYTHONPATH=tests/support python -m zoo DIRECTORY``.
"""

from __future__ import annotations

import os
import random

import pytest
from zoo.cases import SEED, cases
from zoo.judging import wrong_in_log, wrong_in_queues
from zoo.stores import MAKERS, healthy, put_down

import reput
from reput_tools.doctor.findings import Severity
from reput_tools.doctor.repair.repairrun import repair
from reput_tools.doctor.verification.verifyrun import verify

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.shows("repair")]

SHARE = 60
ALL = list(cases())


def chosen():
    """A part of the zoo that has cases of each store; all of it when asked for."""
    if os.environ.get("REPUT_ZOO") == "all":
        return ALL
    return random.Random(SEED).sample(ALL, SHARE)


def test_the_zoo_is_large_and_each_case_has_a_name_of_its_own():
    assert len(ALL) >= 300
    assert len({case.name for case in ALL}) == len(ALL)
    assert {case.store for case in ALL} == MAKERS.keys()


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "reput-killed"])
def test_a_healthy_store_needs_no_repair(tmp_path, name):
    put_down(healthy(name).files, tmp_path / "store")

    done = repair(tmp_path / "store", tmp_path / "repaired")

    assert done.built is None
    assert done.differences == ()
    assert not (tmp_path / "repaired").exists()


@pytest.mark.proof
@pytest.mark.alike
@pytest.mark.parametrize("case", chosen(), ids=lambda case: case.name)
@pytest.mark.costly
def test_a_sick_store_is_named_and_mended(tmp_path, case):
    sick, origin = case.make(), healthy(case.store)
    put_down(sick.files, tmp_path / "store")

    report = verify(tmp_path / "store", jobs=1)
    done = repair(tmp_path / "store", tmp_path / "repaired")

    if sick.is_seen:
        assert report.worst is not None, "the check found nothing"
        assert report.worst > Severity.NOTICE
        assert done.built is not None, "the repair found nothing to do"
    with reput.open(done.target, "r") as store:
        assert store.problems == ()
        assert [*wrong_in_log(store, origin, sick), *wrong_in_queues(store, origin, sick)] == []
    if done.built is not None:
        assert done.built.notices == ()
        again = repair(done.target, tmp_path / "again")
        assert again.built is None, "a second repair found something to do"
        left = verify(done.target, jobs=1).worst or Severity.NOTICE
        # A store time that no checksum covers stays as it is, out of the order of the others.
        assert left <= (Severity.WARNING if sick.altered else Severity.NOTICE)
