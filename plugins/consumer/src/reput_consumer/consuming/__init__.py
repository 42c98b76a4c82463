"""Messages on their way: fetched, handed out, finished or sent back, for one member of a group.

`Engine` is driven by those who ask it for messages; it has no thread, and waits without polling.
"""
