"""Where a derived file and the log contradict each other, and when nothing says which is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reput_tools.offline import Difference, Rebuilt

__all__ = ["contradicts", "vouches"]


def contradicts(difference: Difference) -> bool:
    """Whether a derived file says other than the log, so that either may be wrong.

    A file that lacks something, or that is there as a whole though nothing leads to it, is wrong.
    """
    return not difference.is_absent and difference.kind not in ("missing", "extra", "order")


def vouches(built: Rebuilt) -> bool:
    """Whether sums of all records were compared, and match the log."""
    return not (built.differences or built.not_compared or built.more_count)
