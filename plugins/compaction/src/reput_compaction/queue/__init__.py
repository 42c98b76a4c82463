"""One compacted queue: its topics, the messages appended to it, and reading it.

This package reads what a queue holds, also while another process writes it. It must know neither
how a run chooses messages nor that jobs exist.
"""
