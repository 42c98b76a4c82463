"""The HA port: the flushed part of the log is sent to slaves, and their reports are counted."""
