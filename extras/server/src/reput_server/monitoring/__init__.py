"""Watching a server over HTTP: metrics, a status page, and whether it works."""
