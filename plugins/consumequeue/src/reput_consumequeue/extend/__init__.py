"""Extend files: what the units of a queue have no room for, a bit map of filters above all.

This room writes and reads extend units, and trusts no length of a file. It must not know the queue
whose units lead there.
"""
