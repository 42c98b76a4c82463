"""Which half messages are open, and which are ended without an op marker: derived from the log.

This package follows the log and keeps snapshots on disk. It must not know how transactions are
ended, nor put any message.
"""
