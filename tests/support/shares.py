"""What one interpreter goes through of very many like cases, where all would take too long."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TypeVar

from reput_testing.casebudget import is_soak

_T = TypeVar("_T")
_SHARES = 4
_SHARE = {11: 0, 13: 1}.get(sys.version_info.minor, sys.version_info.minor % _SHARES)


def share(cases: Sequence[_T]) -> Sequence[_T]:
    """Each fourth case, 3.11 and 3.13 different ones; all with REPUT_SOAK.

    What is written and read is the same with each interpreter, and the matrix runs what is marked
    ``proof`` with both of them, so that together they go through half; ``tox -e soak`` through all.
    """
    return cases if is_soak() else cases[_SHARE::_SHARES]
