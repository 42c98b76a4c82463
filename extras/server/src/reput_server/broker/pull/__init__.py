"""Handing messages to consumers: pulls that are answered at once, or held until messages come."""
