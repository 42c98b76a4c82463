"""Which half messages are open, and which are ended but not marked so: kept in step with the log.

This room follows the log and keeps snapshots on disk. It must not know who ends transactions, nor
put anything.
"""
