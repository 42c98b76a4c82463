"""Counts what a log holds, in one reading on all cores, as columns: no message by itself."""
