"""One script of requests: our server answers what a broker 5.3.3 has answered.

The answers of that broker are recorded; `tests/interop/test_same_answers.py` records them again.
What may differ is listed, with its reason, in `sameanswers.allowed`.
"""

from __future__ import annotations

import realbroker
from sameanswers import allowed
from sameanswers.playing import play_with_ours
from sameanswers.recorded import differences_from_recorded, parts_in, silent_names


def test_our_server_answers_as_the_recorded_broker_but_for_what_is_listed(tmp_path):
    names, broker = realbroker.free_ports(), realbroker.free_ports(1, -2)

    run = play_with_ours(tmp_path / "store", names, broker, silent_names())

    differences = differences_from_recorded(parts_in(run))
    assert [str(each) for each in allowed.unexpected(differences)] == []
    assert allowed.unused(differences) == []
