"""Pairs of files, a log and the units that lead into it: named, written, read, exchanged.

This room keeps the bytes of one pair true, also after a crash. It must not know which messages
stay, nor when a queue is compacted.
"""
