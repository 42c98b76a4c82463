"""The reput loop: who runs, what each plugin was given, and what of it is flushed.

This room calls the hooks of plugins, each on a thread that another one's failure does not reach. It
must not know how a store is opened or closed, nor which files of the log go. No door: what is
inside may change in any release.
"""

from __future__ import annotations
