"""Pairs of files, a log and the units that lead into it: named, written, read, replaced.

This package keeps the bytes of one pair right, also after a crash. It must know neither which
messages stay nor when a queue is compacted.
"""
