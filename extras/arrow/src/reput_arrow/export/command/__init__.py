"""``reput export`` and ``reput import``: each parses, calls a job and prints."""
