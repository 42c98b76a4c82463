"""Messages that a member has fetched and not finished: one process queue per queue that it owns.

Nothing here knows where messages come from, or what is done with them.
"""
