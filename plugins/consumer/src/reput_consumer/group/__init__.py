"""One member of a group: what it asks for, which queues it has, and where it begins to read them.

Nothing here takes or hands out messages.
"""
