"""All first-party plugins in one store, whose processes are killed, with readers beside.

Nothing acknowledged is lost, nothing comes twice, nothing early, whatever the processes were at:
puts of every kind, deliveries, check-backs, compaction, retention, a rebuild or a backfill.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("reput_compaction")
pytest.importorskip("reput_consumequeue")
pytest.importorskip("reput_consumer")
pytest.importorskip("reput_filter")
pytest.importorskip("reput_index")
pytest.importorskip("reput_schedule")
pytest.importorskip("reput_server")
pytest.importorskip("reput_transaction")

import mixedplan as plan
from mixedlives import MixedLives

from reput_testing.casebudget import is_one_case, is_soak
from reput_testing.crashes.killrounds import KILLS_VARIABLE

pytestmark = [pytest.mark.proof, pytest.mark.sizes(**plan.SIZES), pytest.mark.shows("kill")]


@pytest.mark.costly
def test_killed_mixes_lose_double_and_hurry_nothing(tmp_path):
    kills = int(os.environ.get(KILLS_VARIABLE) or (2_000 if is_soak() else 4))
    lives = MixedLives(tmp_path)

    lives.run(kills, int(os.environ.get("REPUT_KILL_JOBS") or (1 if is_one_case() else 2)))

    assert lives.killed_count >= kills
