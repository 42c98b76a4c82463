"""Properties of all messages of a batch as columns: compared and searched as Java does, at once.

This room gives every row the answer that one message would get. It must not know the grammar, nor
who asks.
"""
