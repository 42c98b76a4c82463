"""Connections to name servers and brokers, on one event loop of the client's own.

This package knows frames, requests and answers, and no request by its meaning.
"""
