"""Connections: bytes of peers become requests, and what handlers answer becomes bytes."""
