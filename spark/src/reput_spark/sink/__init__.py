"""Streams into a store, each row once."""
