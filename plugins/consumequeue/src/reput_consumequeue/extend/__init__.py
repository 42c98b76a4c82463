"""Extend files: data that does not fit into the units of a queue, above all bit maps of filters.

This package writes and reads extend units, and trusts no length in a file. It must not know the
queue whose units lead to them.
"""
