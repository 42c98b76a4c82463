"""The calls of the service, by subject."""
