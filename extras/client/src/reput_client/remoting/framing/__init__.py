"""Bytes of a connection as commands, and back."""
