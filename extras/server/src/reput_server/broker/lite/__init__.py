"""Lite topics: many small topics in one, each of which is a light queue."""
