"""*Codes*: the value of a condition for each row of a column, one byte a row.

FALSE and TRUE are 0 and 1, so that a mask becomes codes by its dtype alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy.typing as npt

    Codes: TypeAlias = npt.NDArray[np.uint8]
    Mask: TypeAlias = npt.NDArray[np.bool_]

FALSE: Final = 0
TRUE: Final = 1
NULL: Final = 2
ERROR: Final = 3
"""Evaluation throws an exception in Java."""

NEGATED: Final = np.array([TRUE, FALSE, NULL, ERROR], np.uint8)
"""Code of NOT, by the code of its operand."""
NULLNESS: Final = np.array([FALSE, FALSE, TRUE, ERROR], np.uint8)
"""Code of IS NULL, by the code of its operand."""
