"""Messages on their way: fetched, handed out, finished or sent back, for one member of a group.

Callers of `MemberEngine` drive it; it has no thread, and waits without polling.
"""
