"""Producers: which queue a message goes to, what it becomes on the wire, and what is tried again.

`producer` is what programs use; everything else runs on the client's event loop.
"""
