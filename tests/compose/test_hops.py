"""No trip through a store takes more calls than it is allowed: nobody lengthens one unseen.

The test prints the counts; ``python tests/support/hops.py flush`` lists each call of one trip. No
time is limited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# The calls that each trip may take, with the Python engine, one plugin and no threads; CPython 3.11
# counts most, as each comprehension is a call there.
CEILINGS = {
    "put": 9,
    "put sync": 26,
    "dispatch": 129,
    "flush": 120,
    "read": 43,
    "close": 149,
    "open": 571,
    "open after a kill": 894,
}
SCRIPT = Path(__file__).parents[1] / "support/hops.py"


@pytest.mark.costly
def test_no_trip_takes_more_calls_than_its_ceiling():
    # A process of its own: the engine is chosen at the import, and earlier tests fill caches.
    printed = subprocess.run(
        [sys.executable, SCRIPT], check=True, capture_output=True, text=True
    ).stdout

    calls = json.loads(printed)
    for trip, count in calls.items():
        sys.stdout.write(f"{trip:20} {count:6,} calls, at most {CEILINGS[trip]:6,}\n")
    assert calls.keys() == CEILINGS.keys()
    assert min(calls.values()) > 0
    assert {trip: count for trip, count in calls.items() if count > CEILINGS[trip]} == {}
