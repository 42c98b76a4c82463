"""Index files: their parts, their chains of items, and the run of them that a store has.

This room writes and reads items, and knows when they are on disk. It must not know what a query
asks, nor the log.
"""
