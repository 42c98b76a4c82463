"""Find messages by key: items with the same hash select them, the records themselves decide.

This package answers queries, also in RocketMQ's way. It must not change a file.
"""
