"""Messages to records: one, many, with their tails.

This room writes what `reput.record.decode` reads. It must not know where records go.
"""

from __future__ import annotations
