"""One member of a group: its settings, its queues, and where it begins to read them.

Nothing here takes or hands out messages.
"""
