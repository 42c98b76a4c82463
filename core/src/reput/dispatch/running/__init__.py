"""One plugin of an open store: its phase, its place in the log, and its calls.

This room decides whether a plugin runs. It must not read the log.
"""
