"""Verifies one store: its log, what is derived from it, and the small files beside these.

`verify` is what people call. `survey` says which files can be read at all, `mirror` makes a
directory of links to them, on which the rest works, so that nothing is written in the store.
"""

from __future__ import annotations
