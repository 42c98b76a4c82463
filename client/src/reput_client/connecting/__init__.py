"""Connections to name servers and brokers, on one event loop of the client's own.

This room knows frames, requests and answers, and no request by its meaning.
"""
