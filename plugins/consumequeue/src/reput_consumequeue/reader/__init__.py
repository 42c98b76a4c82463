"""Reading a queue: by queue offset, by time, through a filter, and while another process writes.

This package turns units into the messages that they point to, up to the limits of a read. It must
not change a file.
"""
