"""What tasks of a write make aside: log files numbered from zero, and the numbers put in later.

It must not know which files of the store are published, nor hold its lock.
"""
