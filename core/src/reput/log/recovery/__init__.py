"""Recovery of the log at opening: finds its end, finds torn records, repairs damage.

This package runs before anything is appended. It must not know plugins.
"""

from __future__ import annotations
