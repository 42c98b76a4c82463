"""Power cuts, failing operations and killed processes, under a plugin or a whole store."""
