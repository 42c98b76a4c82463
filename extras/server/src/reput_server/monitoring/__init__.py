"""Watching a server: metrics and health over HTTP, and the figures of its pages."""
