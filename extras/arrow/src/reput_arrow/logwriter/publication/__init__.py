"""Make staged files the next ones of a store's log, or take back what was cut short.

It must not know rows, nor how tasks encode them.
"""
