"""What runs plugins: the calls of their hooks, and the threads that dispatch, flush and work.

A plugin's runner decides whether the plugin runs; it must not read the log.
"""

from __future__ import annotations
