"""Dispatching: which plugins run, what each was given, and what of it is flushed.

This package calls the hooks of plugins, so that a plugin's failure does not reach another. It must
not know how a store is opened or closed, nor which log files expire. It is private: everything in
it may change in any release.
"""

from __future__ import annotations
