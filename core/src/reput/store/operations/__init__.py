"""Calls of an open store: puts, reads, reports, and the plugins that they ask.

This package checks arguments and asks plugins. It must not start or stop anything.
"""
