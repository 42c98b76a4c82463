"""A store's directory: which process writes it, how it was left, and what is damaged.

This package reads and writes these files. It must not open a log or a plugin.
"""
