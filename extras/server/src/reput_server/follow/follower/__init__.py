"""Feeds a store with a master's log: where to begin, what may happen, how far it is behind."""
