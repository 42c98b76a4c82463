"""What a server makes of members that a peer writes in another type: a table, by asking it.

Clients in C++ write enums as numbers and numbers as texts; RocketMQ reads both. `table` sends each
member of each body in many types, and notes the answer's code and what the server shows then. The
table of a broker 5.3.3 is recorded in ``tests/golden/peers``.
"""

from __future__ import annotations

from peerbodies.allowed import unexpected, unused
from peerbodies.asking import Servers, differing, table
from peerbodies.recorded import read_recorded, write_recorded

__all__ = [
    "Servers",
    "differing",
    "read_recorded",
    "table",
    "unexpected",
    "unused",
    "write_recorded",
]
