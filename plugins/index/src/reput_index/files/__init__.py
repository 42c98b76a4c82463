"""Index files: their parts, their chains of items, and the sequence of files of a store.

This package writes and reads items, and knows when they are on disk. It must know neither queries
nor the log.
"""
