"""Ends an open store: on request, when the interpreter exits, or in a forked child.

This package closes in an order that loses nothing. It must not open anything.
"""
