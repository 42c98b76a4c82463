"""Finding messages by key: items of like hash select them, the records themselves decide.

This room answers queries, RocketMQ's way as well. It must not change a file.
"""
