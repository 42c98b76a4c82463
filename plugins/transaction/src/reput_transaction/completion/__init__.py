"""End transactions, for callers and by the clock; every put of the plugin is here.

This package commits, rolls back, checks back and writes op markers. It must know neither the
plugin's hooks nor how snapshots are stored.
"""
