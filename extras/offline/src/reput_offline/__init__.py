"""Rebuilds the files of plugins from splits of the log, on many cores: the second engine.

`worker` and `tasks` are what one process does, `engine` runs tasks on this machine, `driver` leads
from the lock to `publish`, which replaces the old files. Users call `reput_offline.local.rebuild`.
What a plugin must offer is in `reput.plugin`, and how a log is cut into splits in `reput.log`.
"""

from __future__ import annotations
