"""Properties of all messages of a batch as columns, compared and searched as Java does.

This package gives every row the answer that a single message would get. It must know neither the
grammar nor the callers.
"""
