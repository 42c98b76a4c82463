"""The HA port: what is on disk of the log is sent to slaves, and their reports are counted."""
