"""The log after a crash: where it ends, what is torn, and how it is made sound.

This room runs before anything is written. It must not know plugins.
"""

from __future__ import annotations
