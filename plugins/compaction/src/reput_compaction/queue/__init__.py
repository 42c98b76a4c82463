"""One compacted queue: the topics that have some, the messages that come to it, reading it.

This room answers what a queue holds, also while another process writes it. It must not know how a
run chooses messages, nor that there are jobs.
"""
