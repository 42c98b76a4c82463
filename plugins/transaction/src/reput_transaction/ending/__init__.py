"""Ends transactions, for callers and by the clock: all that puts messages.

This room commits, rolls back, checks back and writes op markers. It must not know the plugin's
hooks, nor how snapshots are stored.
"""
