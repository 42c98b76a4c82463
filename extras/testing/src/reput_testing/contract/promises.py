"""Names of the promises of `docs/crash-safety.md` that a rule of the contract shows.

The table of tests in `docs/crash-tests.md` is made of them. Tests of reput use the mark ``shows``
of pytest for the same. A rule cannot have this mark: pytest would refuse it in a project of another
author, whose configuration does not register it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Rule = TypeVar("_Rule")


def shows(*promises: str) -> Callable[[_Rule], _Rule]:
    """Return a decorator for a rule, or a class of rules, that shows ``promises``.

    The decorator returns its argument. Only the source is read: by ``docs/site/crashtable.py``.
    """
    del promises
    return _unchanged


def _unchanged(rule: _Rule) -> _Rule:
    return rule
