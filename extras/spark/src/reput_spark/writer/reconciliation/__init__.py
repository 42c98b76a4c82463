"""Find the rows of a batch that are in the log, after a commit that did not end.

By their stamps, where they have some; else by all that their sender gave.
"""
