"""Handing messages out one by one, each until a deadline."""
