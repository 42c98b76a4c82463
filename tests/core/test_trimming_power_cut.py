"""The power goes while the head of the log does: no gap, nothing else missing, no offset twice."""

from __future__ import annotations

import pytest
from trimminglives import Life, check_left, crash_and_check

from reput_testing import PowerCuts

pytestmark = [pytest.mark.proof, pytest.mark.shows("trimming", "lost-ends")]


def check(life, note, root):
    store, _ = check_left(life, note, root)
    store.close()


def test_a_power_cut_while_files_go_leaves_no_gap_and_no_offset_twice(tmp_path, record_property):
    cuts = PowerCuts(tmp_path, most=8, random_count=2, tries=60)

    crash_and_check(cuts, Life(), check)

    record_property("crash states", cuts.tried_count)
    cuts.check_tried(at_least=51)
