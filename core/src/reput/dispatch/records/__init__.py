"""What is kept of a store's plugins from one opening to the next, in the directory `reput`.

This room knows these files and their formats. It must not know who runs.
"""

from __future__ import annotations
