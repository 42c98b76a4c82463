"""Consumers at brokers: a backend of `reput_consumer` that sends requests."""
