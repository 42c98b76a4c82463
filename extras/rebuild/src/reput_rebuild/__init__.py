"""The second engine: builds the files of plugins anew from splits of the log, on many cores.

`worker` and `tasks` are what one process does, `engine` runs tasks on this machine, `driver` leads
from the lock to `publish`, which puts the result in the place of the old.
`reput_rebuild.local.rebuild` is what a user calls. What a plugin has to offer is in `reput.plugin`,
how a log is cut in `reput.log`.
"""

from __future__ import annotations
